"""Fetch (key 1) of a consumer: returns whole batches below the high watermark, or waits for some.

``gateway.ports.services.ReadPolicy`` decides about sessions, replica ids and isolation levels.
Fetch of the quorum's replicas is in ``gateway.handlers.apis.raft``, on controller listeners.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.base.slices import run
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, topic_named, topic_with_id
from gateway.handlers.topic import end_of_epoch, partition_fault
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import FileRecords, Isolation, OffsetOutOfRange, Partition
from gateway.ports.streamed import WHOLE_MAX
from kwire.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.handlers.context import Context
    from gateway.ports.work import Work
    from kwire.messages.fetch_request import FetchRequest, FetchTopic
    from kwire.uuid import Uuid

API_KEY: Final = ApiKey.FETCH
VERSIONS: Final = range(4, 19)

#: The first version with topic ids instead of names (KIP-516).
_BY_ID: Final = 13
#: The first version whose response names the leader to a client with an old epoch (KIP-951).
_NAMES_LEADER: Final = 16
#: The longest wait, ms. The 32 bits of a request hold 24 days, in which the request would occupy
#: its place among those that wait. An empty response before the time is always allowed.
WAIT_MAX_MS: Final = 300_000
#: The first version with the replica's id in ``replica_state`` (KIP-903).
_REPLICA_STATE: Final = 15


class _Wanted(NamedTuple):
    """One partition of the request, with its log, or with an error that waiting will not change.

    It has the fields that the response depends on. The request itself may be large, and is dropped
    while the Fetch waits.
    """

    topic: str
    topic_id: Uuid
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    log: Partition | ErrorCode


def handle(request: FetchRequest, context: Context) -> FetchResponse | PendingResponse | Work:
    """Return the response at once if there is data or an error, else when ``min_bytes`` are
    available or ``max_wait_ms`` is over.

    If there is a batch, at least one whole batch is returned, even above every limit (KIP-74).
    """
    fault = context.gateway.partitions.policy.session_fault(request.session_epoch)
    if fault:
        return FetchResponse(error_code=fault)
    fetch = _Fetch(request, context)
    if sum(len(topic.partitions) for topic in request.topics) > WHOLE_MAX:
        return _work_on(fetch, request, context)
    run(fetch.collect(request))
    return _answer(fetch, request, context)


def _work_on(fetch: _Fetch, request: FetchRequest, context: Context) -> Work:
    """Answer a request of many partitions in slices.

    There are fewer logs than that, so that all but some partitions get an error, for which no
    request waits.
    """
    yield from fetch.collect(request)
    if fetch.is_long:
        return (yield from fetch.answer_in_slices())
    return _answer(fetch, request, context)


def _answer(
    fetch: _Fetch, request: FetchRequest, context: Context
) -> FetchResponse | PendingResponse:
    if request.max_wait_ms <= 0 or fetch.is_ready():
        return fetch.answer()
    wait_ms = min(request.max_wait_ms, WAIT_MAX_MS)
    return PendingResponse(
        deadline=context.now + wait_ms / 1000,
        expire=fetch.answer,
        ready=fetch.answer_if_ready,
        partitions=fetch.partitions,
        keeps_request=False,
    )


class _Fetch:
    """One request, which is checked at once and again whenever the log grows."""

    __slots__ = ("_bytes_max", "_bytes_min", "_context", "_isolation", "_wanted")

    def __init__(self, request: FetchRequest, context: Context) -> None:
        self._context = context
        by_state = context.version >= _REPLICA_STATE
        self._isolation = context.gateway.partitions.policy.isolation(
            request.replica_state.replica_id if by_state else request.replica_id,
            request.isolation_level,
        )
        # As in ReplicaManager: the server's limit lowers the client's, and both lower the number of
        # bytes that the client waits for, which it would never get.
        self._bytes_max = max(0, min(request.max_bytes, context.gateway.config.fetch_max_bytes))
        self._bytes_min = min(request.min_bytes, self._bytes_max)
        self._wanted: list[_Wanted] = []

    def collect(self, request: FetchRequest) -> Slices[None]:
        """Look up the logs of the request's partitions.

        As in Kafka's map by topic and partition, the last of several entries for one partition
        counts.
        """
        wanted: dict[tuple[str, Uuid, int], _Wanted] = {}
        for topic in request.topics:
            found = _found(topic, self._context)
            for partition in topic.partitions:
                log = (
                    self._context.gateway.partitions.find(found.topic_id, partition.partition)
                    if isinstance(found, Topic)
                    else found
                )
                wanted[topic.topic, topic.topic_id, partition.partition] = _Wanted(
                    topic.topic,
                    topic.topic_id,
                    partition.partition,
                    partition.fetch_offset,
                    partition.partition_max_bytes,
                    partition.current_leader_epoch,
                    partition.last_fetched_epoch,
                    log,
                )
                yield
        self._wanted = list(wanted.values())

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions whose records the request may wait for, each once."""
        logs = (wanted.log for wanted in self._wanted)
        return tuple(dict.fromkeys(log for log in logs if not isinstance(log, ErrorCode)))

    @property
    def is_long(self) -> bool:
        """Whether the response has so many partitions that it is built in slices."""
        return len(self._wanted) > WHOLE_MAX

    def answer_if_ready(self) -> FetchResponse | None:
        """Return the response, or None while the request waits."""
        return self.answer() if self.is_ready() else None

    def is_ready(self) -> bool:
        """Whether the response would have an error, a divergence or enough bytes now, or the
        request has no partition.
        """
        if self._bytes_min <= 0:
            return True
        return not self._wanted or any(self._has_news(wanted) for wanted in self._wanted)

    def answer(self) -> FetchResponse:
        """Return the response as of now."""
        return run(self.answer_in_slices())

    def answer_in_slices(self) -> Slices[FetchResponse]:
        """Build the response, a partition in each step. Releases what it read if it is given up."""
        response = FetchResponse()
        try:
            # Adjacent partitions of one topic share an element (FetchResponse.matchingTopic).
            for (name, topic_id), partitions in itertools.groupby(
                self._wanted, lambda one: (one.topic, one.topic_id)
            ):
                topic = FetchableTopicResponse(topic=name, topic_id=topic_id)
                response.responses.append(topic)
                for wanted in partitions:
                    topic.partitions.append(self._partition(wanted, response))
                    yield
        except GeneratorExit:
            for data in (data for topic in response.responses for data in topic.partitions):
                if isinstance(data.records, FileRecords):
                    data.records.read.release()
            raise
        return response

    def _has_news(self, wanted: _Wanted) -> bool:
        log = wanted.log
        if isinstance(log, ErrorCode) or partition_fault(log, wanted.leader_epoch):
            return True
        if not log.log_start_offset <= wanted.fetch_offset <= log.high_watermark:
            return True
        # More than the limit of the partition is never sent, so a wait for more would never end.
        enough = max(1, min(self._bytes_min, wanted.max_bytes))
        try:
            return (
                log.bytes_available(wanted.fetch_offset, enough, self._isolation) >= enough
                or _diverging(log, wanted) is not None
            )
        except OffsetOutOfRange:
            return True

    def _partition(self, wanted: _Wanted, response: FetchResponse) -> PartitionData:
        log = wanted.log
        fault = log if isinstance(log, ErrorCode) else partition_fault(log, wanted.leader_epoch)
        if not isinstance(log, ErrorCode) and fault is ErrorCode.NONE:
            try:
                return self._data(log, wanted)
            except OffsetOutOfRange:
                fault = ErrorCode.OFFSET_OUT_OF_RANGE
        data = PartitionData(
            partition_index=wanted.partition, error_code=fault, high_watermark=-1, records=b""
        )
        if (
            not isinstance(log, ErrorCode)
            and fault is ErrorCode.FENCED_LEADER_EPOCH
            and self._context.version >= _NAMES_LEADER
        ):
            self._name_leader(log, data, response)
        return data

    def _data(self, log: Partition, wanted: _Wanted) -> PartitionData:
        diverging = _diverging(log, wanted)
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.visible_end(Isolation.TXN_COMMITTED),
            log_start_offset=log.log_start_offset,
            aborted_transactions=None if self._isolation is Isolation.HIGH_WATERMARK else [],
            # Empty, never null: several clients fail on null (KAFKA-18648).
            records=b"",
        )
        if diverging is not None:
            data.diverging_epoch = EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        else:
            most = max(0, min(wanted.max_bytes, self._bytes_max))
            if self._isolation is Isolation.TXN_COMMITTED:
                read, aborted = log.read_committed(wanted.fetch_offset, most)
                data.aborted_transactions = [
                    AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                    for one in aborted
                ]
            else:
                read = log.read(wanted.fetch_offset, most)
            if read.size:
                data.records = FileRecords(read)
            else:
                read.release()
        return data

    def _name_leader(self, log: Partition, data: PartitionData, response: FetchResponse) -> None:
        gateway = self._context.gateway
        data.current_leader = LeaderIdAndEpoch(
            leader_id=gateway.node_id, leader_epoch=log.leader_epoch
        )
        if not response.node_endpoints:
            endpoint = gateway.endpoint(self._context.peer.listener)
            response.node_endpoints = [
                NodeEndpoint(node_id=gateway.node_id, host=endpoint.host, port=endpoint.port)
            ]


def _diverging(log: Partition, wanted: _Wanted) -> tuple[int, int] | None:
    """Return the (epoch, end offset) to which the client must truncate, if it sent the epoch of its
    last record and that is not in this log (KIP-595); None if its log agrees with this one.

    Raises OffsetOutOfRange where ``Partition.readRecords`` does.
    """
    if wanted.last_fetched_epoch < 0:
        return None
    if wanted.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"offset {wanted.fetch_offset} is below the log start {log.log_start_offset}"
        )
    epoch, end = end_of_epoch(log, wanted.last_fetched_epoch)
    if epoch < 0:
        raise OffsetOutOfRange(f"epoch {wanted.last_fetched_epoch} is not in this log")
    return (epoch, end) if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset else None


def _found(topic: FetchTopic, context: Context) -> Topic | ErrorCode:
    # As in Kafka: an unknown id gets UNKNOWN_TOPIC_ID, which reveals no name. With a name the
    # authorization comes before existence, so that the error does not tell whether the topic
    # exists.
    if context.version >= _BY_ID:
        found = topic_with_id(topic.topic_id, context)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = topic_named(topic.topic, context)
    if not may(context, Operation.READ, topic.topic if found is None else found.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found
