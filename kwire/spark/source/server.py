"""Requests the metadata topic's offsets, epochs and cluster id from a server, through kafka-python.
It knows no Spark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar
from uuid import UUID

from kwire.records import iter_batches
from kwire.spark.options import METADATA_TOPIC
from kwire.spark.source.offsets import LogState, Position, epoch_before
from kwire.spark.source.options import Place, Settings
from kwire.uuid import Uuid

#: Between two requests where the first could not be answered yet.
RETRY_S: Final = 0.1
_PATIENCE_S: Final = 30
_EARLIEST, _LATEST = -2, -1
#: The newest version of Fetch that names topics and not their ids.
_FETCH_VERSION_MAX: Final = 12
_FETCH_WAIT_MS: Final = 500
#: Bytes asked for at a time where the options do not say, as Kafka's consumers have it.
_PARTITION_BYTES: Final = 1024 * 1024
_T = TypeVar("_T")


class ServerError(RuntimeError):
    """The server cannot be reached, or refuses."""


class ServerLog:
    """Offsets and epochs of the topic for the planner. Every call sends a request to the server."""

    def __init__(self, settings: Settings, *, patience_s: float = _PATIENCE_S) -> None:
        """Connect. A request is repeated for ``patience_s`` seconds. Raises ServerError when no
        server answers, and for options that kafka-python refuses.
        """
        from kafka import KafkaAdminClient, TopicPartition
        from kafka.errors import KafkaTimeoutError

        self._settings, self._patience_s = settings, patience_s
        self._partition = TopicPartition(METADATA_TOPIC, 0)
        self._leader: int | None = None
        with sentences(settings), _reasons() as reasons:
            try:
                self._admin = KafkaAdminClient(
                    bootstrap_servers=settings.bootstrap.split(","), **settings.client
                )
            except KafkaTimeoutError as error:
                raise KafkaTimeoutError(
                    "; ".join([str(error).partition(": ")[2], *reasons])
                ) from None

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def cluster_id(self) -> str:
        """Return the id of the server's cluster, empty if the server does not return one. Raises
        ServerError.
        """
        return self.patiently(lambda: self._admin.describe_cluster().get("cluster_id") or "")

    def state(self) -> LogState:
        """The log as it is now. Raises ServerError."""
        return self.patiently(self._state)

    def _state(self) -> LogState:
        cluster, (topic, partition) = self._admin.describe_cluster(), self._described()
        self._leader = partition["leader_id"]
        return LogState(
            cluster_id=cluster.get("cluster_id") or "",
            topic_id=str(Uuid(UUID(topic["topic_id"]).bytes)) if topic.get("topic_id") else "",
            start=self._offset(_EARLIEST),
            end=self._offset(_LATEST),
            leader_epoch=partition.get("leader_epoch", -1),
        )

    def end(self) -> int:
        """The end of the log, at the price of one request. Raises ServerError."""
        return self.patiently(lambda: self._offset(_LATEST))

    def offset_of(self, place: Place, state: LogState) -> int:
        """The offset of ``place``; a time after the last record is the end of the log. Raises
        ServerError.
        """
        if place.offset is not None:
            return place.offset
        if place.timestamp_ms is not None:
            timestamp_ms = place.timestamp_ms
            found = self.patiently(lambda: self._offset(timestamp_ms))
            return state.end if found < 0 else found
        return state.start if place.name == "earliest" else state.end

    def position(self, offset: int, state: LogState, first: int | None = None) -> Position:
        """Return ``offset`` with the ids that tell this log from another. Raises ServerError."""
        return Position(
            state.cluster_id,
            state.topic_id,
            epoch_before(offset, state, self.end_of_epoch),
            offset,
            first,
            self.time_before(offset) if offset > state.start else None,
        )

    def time_before(self, offset: int) -> int | None:
        """The largest timestamp (ms) of the batch with the record before ``offset``, None if the
        log does not have it. Raises ServerError.
        """
        from kafka.errors import OffsetOutOfRangeError

        def ask() -> int | None:
            try:
                data = self.fetch(offset - 1, 1)  # one batch, as a first one is given whole
            except OffsetOutOfRangeError:
                return None
            batches = iter_batches(data)
            return next((one.max_timestamp for one in batches if one.next_offset >= offset), None)

        return self.patiently(ask)

    def fetch(self, at: int, size: int | None = None) -> bytes:
        """The batches from the one with offset ``at`` on, of about ``size`` bytes in all; none if
        there are none now. Raises kafka-python's KafkaError.
        """
        from kafka.protocol.consumer import FetchRequest as Request

        given = self._settings.fetch
        size = size or given.get("max_partition_fetch_bytes", _PARTITION_BYTES)
        wanted = Request.FetchTopic.FetchPartition(
            partition=0,
            current_leader_epoch=-1,
            fetch_offset=at,
            last_fetched_epoch=-1,
            partition_max_bytes=size,
        )
        request = Request(
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=given.get("fetch_max_bytes", size),
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[Request.FetchTopic(topic=METADATA_TOPIC, partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id="",
            max_version=_FETCH_VERSION_MAX,
        )
        answer: Any = self.ask_leader(request)
        raise_code(answer.error_code or 0)
        partition = answer.responses[0].partitions[0]
        raise_code(partition.error_code)
        return bytes(partition.records or b"")

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Where ``epoch`` ends, as OffsetForLeaderEpoch (KIP-320) answers; None from a server
        without it. Raises ServerError.
        """
        from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError
        from kafka.protocol.consumer import OffsetForLeaderEpochRequest as Request

        wanted = Request.OffsetForLeaderTopic.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=-1, leader_epoch=epoch
        )
        request = Request(
            replica_id=-1,
            topics=[Request.OffsetForLeaderTopic(topic=METADATA_TOPIC, partitions=[wanted])],
        )

        def ask() -> tuple[int, int] | None:
            try:
                answer = self.ask_leader(request).topics[0].partitions[0]
            except (IncompatibleBrokerVersion, UnsupportedVersionError):
                return None
            raise_code(answer.error_code)
            return answer.leader_epoch, answer.end_offset

        return self.patiently(ask)

    def ask_leader(self, request: Any) -> Any:
        """The leader's answer to a request for which kafka-python's admin client has no method.
        Raises its KafkaError.
        """
        if self._leader is None:
            self._leader = self._described()[1]["leader_id"]
        manager = self._admin._manager
        return manager.run(manager.send, request, self._leader)

    def forget_leader(self) -> None:
        """Let the next request find the leader again."""
        self._leader = None

    def patiently(self, ask: Callable[[], _T]) -> _T:
        """Return the result of ``ask``, retried as Kafka's clients do: a restart of the server does
        not end a query. Raises ServerError.
        """
        from kafka.errors import RetriableError

        deadline = time.monotonic() + self._patience_s
        with sentences(self._settings):
            while True:
                try:
                    return ask()
                except RetriableError:
                    if time.monotonic() > deadline:
                        raise
                self.forget_leader()
                time.sleep(RETRY_S)

    def _described(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The topic and its partition 0, as Metadata answers."""
        [topic] = self._admin.describe_topics([METADATA_TOPIC])
        raise_code(topic["error_code"])
        partition = next(one for one in topic["partitions"] if one["partition_index"] == 0)
        raise_code(partition["error_code"])
        return topic, partition

    def _offset(self, spec: int) -> int:
        return int(
            self._admin.list_partition_offsets({self._partition: spec})[self._partition].offset
        )


def raise_code(error_code: int) -> None:
    """Raise kafka-python's error of that number; 0 is none."""
    from kafka.errors import for_code

    if error_code:
        raise for_code(error_code)()


@contextmanager
def _reasons() -> Iterator[dict[str, None]]:
    """Collect the reasons of failed connections. kafka-python retries, even after a wrong password,
    and only logs them.
    """
    found: dict[str, None] = {}

    def look(record: logging.LogRecord) -> bool:
        if (
            str(record.msg).startswith("Bootstrap connection to")
            and isinstance(record.args, tuple)
            and len(record.args) > 1
        ):
            found[str(record.args[1])] = None
        return True

    log = logging.getLogger("kafka.net.manager")
    log.addFilter(look)
    try:
        yield found
    finally:
        log.removeFilter(look)


@contextmanager
def sentences(settings: Settings) -> Iterator[None]:
    """Return kafka-python's errors as one sentence that names the server."""
    from kafka.errors import KafkaError

    try:
        yield
    except KafkaError as error:
        said = str(error) or type(error).__name__
        raise ServerError(
            f"cannot read {METADATA_TOPIC} from {settings.bootstrap}: {said}"
        ) from None
