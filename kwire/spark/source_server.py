"""The metadata topic on a server, asked through kafka-python: where it begins and ends, whose it is, and its records.

Spark's planner asks with an admin client; each task reads with a consumer of its own, without a group. Knows no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID

from kwire.spark.options import METADATA_TOPIC
from kwire.spark.source_offsets import DataLossError, EndOfEpoch, LogState, Position, epoch_before
from kwire.spark.source_options import Place, Settings
from kwire.spark.source_rows import Raw
from kwire.uuid import Uuid

_EARLIEST, _LATEST = -2, -1
#: Records that kafka-python hands out at a time, where the options do not say.
_MAX_POLL_RECORDS: Final = 5000
#: How long one poll waits for records; the whole wait is ``pollTimeoutMs``.
_POLL_MS: Final = 500


class ServerError(RuntimeError):
    """The server cannot be asked, or says no."""


class ServerLog:
    """What the planner wants to know of the topic. Every call asks the server anew."""

    def __init__(self, settings: Settings) -> None:
        """Connect. Raises ServerError when nobody answers, and for options that kafka-python refuses."""
        from kafka import KafkaAdminClient, TopicPartition

        self._settings = settings
        self._partition = TopicPartition(METADATA_TOPIC, 0)
        with _sentences(settings):
            self._admin = KafkaAdminClient(bootstrap_servers=settings.bootstrap.split(","), **settings.client)

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def state(self) -> LogState:
        """The log as it is now. Raises ServerError."""
        with _sentences(self._settings):
            cluster = self._admin.describe_cluster()
            [topic] = self._admin.describe_topics([METADATA_TOPIC])
            _raise(topic["error_code"])
            partition = next(one for one in topic["partitions"] if one["partition_index"] == 0)
            _raise(partition["error_code"])
            return LogState(
                cluster_id=cluster.get("cluster_id") or "",
                topic_id=str(Uuid(UUID(topic["topic_id"]).bytes)) if topic.get("topic_id") else "",
                start=self._offset(_EARLIEST),
                end=self._offset(_LATEST),
                leader_epoch=partition.get("leader_epoch", -1),
                leader_id=partition["leader_id"],
            )

    def offset_of(self, place: Place, state: LogState) -> int:
        """The offset that ``place`` means; a time behind the last record is the end of the log. Raises ServerError."""
        if place.offset is not None:
            return place.offset
        if place.timestamp_ms is not None:
            with _sentences(self._settings):
                found = self._offset(place.timestamp_ms)
            return state.end if found < 0 else found
        return state.start if place.name == "earliest" else state.end

    def position(self, offset: int, state: LogState, first: int | None = None) -> Position:
        """``offset`` with what tells this log from another. Raises ServerError."""
        return Position(state.cluster_id, state.topic_id, epoch_before(offset, state, self.end_of_epoch(state)), offset, first)

    def end_of_epoch(self, state: LogState) -> EndOfEpoch:
        """A function that asks where an epoch ends (OffsetForLeaderEpoch, KIP-320)."""

        def ask(epoch: int) -> tuple[int, int] | None:
            from kafka.errors import IncompatibleBrokerVersion, UnsupportedVersionError
            from kafka.protocol.consumer import OffsetForLeaderEpochRequest as Request

            partition = Request.OffsetForLeaderTopic.OffsetForLeaderPartition(
                partition=0, current_leader_epoch=-1, leader_epoch=epoch
            )
            topic = Request.OffsetForLeaderTopic(topic=METADATA_TOPIC, partitions=[partition])
            request = Request(replica_id=-1, topics=[topic])
            with _sentences(self._settings):
                try:
                    # kafka-python sends this request for its consumers only; its admin client has no method for it.
                    manager = self._admin._manager
                    answer = manager.run(manager.send, request, state.leader_id).topics[0].partitions[0]
                except (IncompatibleBrokerVersion, UnsupportedVersionError):
                    return None
                _raise(answer.error_code)
                return answer.leader_epoch, answer.end_offset

        return ask

    def _offset(self, spec: int) -> int:
        return int(self._admin.list_partition_offsets({self._partition: spec})[self._partition].offset)


def read_range(settings: Settings, start: int, end: int) -> Iterator[list[Raw]]:
    """The records with ``start`` <= offset < ``end``, in order, as they arrive.

    Offsets of control records bring none. Raises DataLossError when the log start has passed ``start`` and the options do
    not bear that; ServerError when nothing comes for ``poll_timeout_ms``.
    """
    from kafka import KafkaConsumer, TopicPartition
    from kafka.errors import OffsetOutOfRangeError

    partition = TopicPartition(METADATA_TOPIC, 0)
    with _sentences(settings):
        consumer = KafkaConsumer(
            bootstrap_servers=settings.bootstrap.split(","),
            auto_offset_reset="none",
            enable_auto_commit=False,
            exclude_internal_topics=False,
            **{**settings.client, "max_poll_records": _MAX_POLL_RECORDS, **settings.fetch},
        )
    try:
        with _sentences(settings):
            consumer.assign([partition])
            consumer.seek(partition, start)
        at, deadline = start, _deadline(settings)
        while at < end:
            with _sentences(settings):
                try:
                    records = consumer.poll(timeout_ms=_POLL_MS).get(partition, [])
                    now_at = consumer.position(partition)
                except OffsetOutOfRangeError:
                    now_at, records = _start_after_loss(consumer, partition, settings, at, end), []
            yield [Raw(r.offset, r.timestamp, r.leader_epoch, r.key, r.value) for r in records if r.offset < end]
            if now_at > at:
                at, deadline = now_at, _deadline(settings)
            elif time.monotonic() > deadline:
                raise ServerError(f"{settings.bootstrap} gave nothing at offset {at} for {settings.poll_timeout_ms} ms")
    finally:
        consumer.close()


def _start_after_loss(consumer: Any, partition: Any, settings: Settings, at: int, end: int) -> int:
    """Where to go on when ``at`` is not in the log any more, ``end`` if nothing of the range is."""
    first = int(consumer.beginning_offsets([partition])[partition])
    if settings.fail_on_data_loss:
        raise DataLossError(f"offset {at} of {METADATA_TOPIC} is gone from {settings.bootstrap}: the log now starts at {first}")
    if first <= at:
        return end
    consumer.seek(partition, first)
    return first


def _deadline(settings: Settings) -> float:
    return time.monotonic() + settings.poll_timeout_ms / 1000


def _raise(error_code: int) -> None:
    from kafka.errors import for_code

    if error_code:
        raise for_code(error_code)()


@contextmanager
def _sentences(settings: Settings) -> Iterator[None]:
    """kafka-python's errors as one sentence that says which server."""
    from kafka.errors import KafkaError, OffsetOutOfRangeError

    try:
        yield
    except OffsetOutOfRangeError:
        raise
    except KafkaError as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise ServerError(f"cannot read {METADATA_TOPIC} from {settings.bootstrap}: {said}") from error
