"""Produce (key 0): appends the batches of producers to the partitions that hold data here.

Every other topic is refused: only controllers write the metadata log. On a server that is no broker
all topics are, and Produce is advertised all the same: librdkafka derives the record format of the
server from its versions, and without them kcat, confluent-kafka and all clients built on it read
nothing, without an error. Source: ``KafkaApis.handleProduceRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import check_batch
from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.apis.produce_verification import (
    TransactionalAppends,
    has_transactional_records,
)
from gateway.handlers.catalog import Topic, topic_named, topic_with_id
from gateway.handlers.topic import INTERNAL_TOPICS
from gateway.handlers.transaction_requests import may_on_transaction
from gateway.ports.pending_response import NO_RESPONSE, NoResponse, PendingResponse
from gateway.ports.replicas import Appended
from gateway.ports.services import AUDIT_CLIENT_ID, AUDIT_TOPIC
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.view_topics import VIEW_TOPICS
from gateway.ports.work import begun
from kwire.messages.produce_response import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.broker.produce.validation import ProducedBatch
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from gateway.ports.replicas import Replicas, WritablePartition
    from kwire.message import Message
    from kwire.messages.produce_request import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

API_KEY: Final = ApiKey.PRODUCE
VERSIONS: Final = range(3, 14)

REASON: Final = "This server serves the metadata log read-only: nothing can be produced to it."
AUDIT: Final = (
    "The nodes of the quorum alone write down who changed what: "
    "nothing can be produced to this topic."
)
VIEW: Final = "This topic is derived from the metadata log: nothing can be produced to it."
NO_DATA: Final = (
    "This server keeps the metadata of topics, not their records: nothing can be produced to them."
)
#: The first version with topic ids (KIP-516).
_BY_ID: Final = 13
#: ``acks``: the response is sent when all replicas that are in sync have the batch, or at once
#: when the leader has; there is none for 0.
_ALL, _NONE = -1, 0
#: ``AdminUtils.ADMIN_CLIENT_ID``: a client that may write the topics of coordinators.
_ADMIN_CLIENT_ID: Final = "__admin_client"
_ACKS: Final = (_ALL, _NONE, 1)
#: Steps that are carried out at once: each looks at 1,000 records, the last one for a batch appends
#: it, too.
_STEPS_AT_ONCE: Final = 4
#: Bytes of the objects for a partition of a request.
_PARTITION_BYTES: Final = 600


def memory_of(request: ProduceRequest, size: int) -> int:
    """Return the bytes of memory that a decoded request of ``size`` bytes takes: records are not
    decoded, and are copied once.
    """
    partitions = sum(len(topic.partition_data) for topic in request.topic_data)
    return 2 * size + _PARTITION_BYTES * partitions


def handle(request: ProduceRequest, context: Context) -> Answer:
    """Append the batches. The response comes when all of them are written, or refused; None, with
    which the connection is closed, if a request with acks=0 has an error.
    """
    replicas = context.gateway.replicas
    if replicas is None:
        return _refuse_all(request, context)
    return begun(_Produce(request, context, replicas).run(request), _STEPS_AT_ONCE)


# --- a server that is no broker
# ------------------------------------------------------------------------------------------------


def _refuse_all(request: ProduceRequest, context: Context) -> Message | Streamed | None:
    """Return TOPIC_AUTHORIZATION_FAILED for every partition: not retriable, so that a producer
    fails at once.
    """
    if request.acks == _NONE:
        return None
    topics = (_refused(topic, context) for topic in request.topic_data)
    size = sum(1 + len(topic.partition_data) for topic in request.topic_data)
    return respond(ProduceResponse(), "responses", topics, size)


def _refused(topic: TopicProduceData, context: Context) -> TopicProduceResponse | Streamed:
    fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    by_id = context.version >= _BY_ID
    found = topic_with_id(topic.topic_id, context) if by_id else topic_named(topic.name, context)
    if by_id and found is None:
        fault = ErrorCode.UNKNOWN_TOPIC_ID
    reason = _reason(found)
    partitions = (
        PartitionProduceResponse(
            index=partition.index, error_code=fault, base_offset=-1, error_message=reason
        )
        for partition in topic.partition_data
    )
    response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
    return filled(response, "partition_responses", partitions)


def _reason(topic: Topic | None) -> str:
    if topic is not None and topic.name in VIEW_TOPICS:
        return VIEW
    if topic is None or topic.partitions is None:
        return REASON
    return AUDIT if topic.name == AUDIT_TOPIC else NO_DATA


def _hands_over_entries(context: Context) -> bool:
    """Whether the client is a node of the quorum with entries of its audit log. Others are refused
    where there is no authorizer, too, like clients of the topics of coordinators.
    """
    is_forwarder = context.client_id == AUDIT_CLIENT_ID
    return is_forwarder and may_on_cluster(context, Operation.CLUSTER_ACTION)


# --- a broker
# ------------------------------------------------------------------------------------------------


#: A partition of a request: its topic, or why that is refused; its place in the response.
_Wanted = tuple["Topic | BatchRefused", "PartitionProduceData", PartitionProduceResponse]


class _Checked(NamedTuple):
    """A batch that may be appended."""

    topic: str
    number: int
    partition: WritablePartition
    batch: ProducedBatch
    response: PartitionProduceResponse


class _Produce:
    """One request, until each of its batches is written or refused."""

    def __init__(self, request: ProduceRequest, context: Context, replicas: Replicas) -> None:
        # Not the request itself, whose records need not stay in memory until they are committed.
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._context, self._replicas = context, replicas
        self._response = ProduceResponse()
        self._unwritten: dict[int, PartitionProduceResponse] = {}  # by identity
        self._pending: PendingResponse | None = None
        self._has_failed = False
        self._transactional: TransactionalAppends | None = None
        self._left: Iterator[_Wanted] = iter(())  # batches that were not looked at
        self._next: _Checked | None = None  # the batch that is to be appended

    def run(self, request: ProduceRequest) -> Work:
        """Append every batch, in the order of the request."""
        if has_transactional_records(request) and not self._begin_transactional(request):
            return (
                yield from self._refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            )
        if self._acks not in _ACKS:
            return (yield from self._refuse(request, ErrorCode.INVALID_REQUIRED_ACKS))
        self._left = self._batches(request)
        return (yield from self._append_all())

    def _batches(self, request: ProduceRequest) -> Iterator[_Wanted]:
        """Yield each partition of the request, with its place in the response."""
        for topic in request.topic_data:
            response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            self._response.responses.append(response)
            found = self._topic(topic)
            for wanted in topic.partition_data:
                one = PartitionProduceResponse(index=wanted.index, base_offset=-1)
                response.partition_responses.append(one)
                yield found, wanted, one

    def _append_all(self) -> Work:
        """Append what is left, as long as there is space behind a slow disk."""
        is_first = True
        while True:
            if self._next is None:
                wanted = next(self._left, None)
                if wanted is None:
                    break
                if not is_first:
                    yield None
                yield from self._check(*wanted)
            if self._next is not None:
                if self._next.partition.backlog.is_full:
                    return self._wait_for_space(self._next)
                checked, self._next = self._next, None
                try:
                    self._append(checked)
                except BatchRefused as refused:
                    self._done(checked.response, refused)
            is_first = False
        if self._transactional is not None:
            self._transactional.ask()
        return self._answer()

    def _wait_for_space(self, checked: _Checked) -> PendingResponse:
        """Append the rest later: this connection is read no further until then."""
        # Without a response the client cannot be told that the time is over.
        deadline = None if self._acks == _NONE else self._deadline()
        pending = PendingResponse(deadline=deadline)
        backlog, size = checked.partition.backlog, len(checked.batch.data)
        give_up = backlog.wait(size, lambda: pending.complete(self._append_all()))

        def expire() -> ProduceResponse | NoResponse | None:
            give_up()
            self._unwritten[id(checked.response)] = checked.response
            for _, _, response in self._left:
                self._unwritten[id(response)] = response
            return self._expired()

        pending.on_cancel, pending.expire = give_up, expire
        return pending

    def _begin_transactional(self, request: ProduceRequest) -> bool:
        """Prepare for batches of a transaction; whether the client may write in it."""
        name, coordinator = request.transactional_id, self._context.gateway.transactions
        if name is None or coordinator is None:
            return False
        if not may_on_transaction(self._context, Operation.WRITE, name):
            return False
        self._transactional = TransactionalAppends(coordinator, name, self._context.version)
        return True

    def _refuse(self, request: ProduceRequest, fault: ErrorCode) -> Work:
        """Refuse every partition with the same error."""
        for topic in request.topic_data:
            response = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            self._response.responses.append(response)
            for wanted in topic.partition_data:
                one = PartitionProduceResponse(index=wanted.index, base_offset=-1)
                response.partition_responses.append(one)
                self._done(one, BatchRefused(fault, ""))
            yield None
        return self._answer()

    def _topic(self, topic: TopicProduceData) -> Topic | BatchRefused:
        # As in Kafka: an unknown id gets UNKNOWN_TOPIC_ID; with a name the authorization comes
        # before existence.
        context = self._context
        by_id = context.version >= _BY_ID
        found = (
            topic_with_id(topic.topic_id, context) if by_id else topic_named(topic.name, context)
        )
        if by_id and found is None:
            return BatchRefused(ErrorCode.UNKNOWN_TOPIC_ID, "")
        name = topic.name if found is None else found.name
        is_audit = name == AUDIT_TOPIC and _hands_over_entries(context)
        if not is_audit and not may(context, Operation.WRITE, name):
            return BatchRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
        if found is None:
            return BatchRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        if found.partitions is None or (name == AUDIT_TOPIC and not is_audit):
            return BatchRefused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, _reason(found))
        if found.name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT_ID:
            return BatchRefused(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Coordinators alone write the topic {found.name}.",
            )
        return found

    def _check(
        self,
        topic: Topic | BatchRefused,
        wanted: PartitionProduceData,
        response: PartitionProduceResponse,
    ) -> Work:
        """Find out whether a batch may be appended; it is the next one then."""
        context, replicas = self._context, self._replicas
        try:
            if isinstance(topic, BatchRefused):
                raise topic
            found = replicas.find_writable(topic.topic_id, wanted.index)
            if isinstance(found, ErrorCode):
                raise BatchRefused(found, "")
            replicas.count_produce(found)
            try:
                batch = yield from check_batch(
                    wanted.records, context.version, found.rules, context.wall_ms
                )
            except BatchRefused as refused:
                replicas.count_refused(found, refused.error)
                raise
            self._next = _Checked(topic.name, wanted.index, found, batch, response)
        except BatchRefused as refused:
            self._done(response, refused)
        return None

    def _append(self, checked: _Checked) -> None:
        topic, number, partition, batch, response = checked
        self._unwritten[id(response)] = response
        on_done = partial(self._done, response)
        if self._transactional is not None and batch.header.is_transactional:
            self._transactional.append((topic, number), partition, batch, on_done)
        else:
            partition.append(batch, on_done, until_committed=self._acks == _ALL)

    def _done(self, response: PartitionProduceResponse, outcome: Appended | BatchRefused) -> None:
        """A batch is written or refused."""
        if isinstance(outcome, Appended):
            response.base_offset = outcome.base_offset
            response.log_append_time_ms = outcome.log_append_time
            response.log_start_offset = outcome.log_start_offset
            response.error_code = ErrorCode.NONE
        else:
            self._has_failed = True
            response.error_code = outcome.error
            response.error_message = outcome.message or None
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=fault)
                for number, fault in outcome.records
            ]
        self._unwritten.pop(id(response), None)
        if self._pending is not None and not self._unwritten:
            self._pending.complete(self._answered())

    def _answer(self) -> PendingResponse | ProduceResponse | NoResponse | None:
        if not self._unwritten:
            return self._answered()
        # The batches are counted where they wait for the disk; those that are written are not kept.
        self._pending = PendingResponse(
            deadline=self._deadline(), expire=self._expired, keeps_request=False
        )
        return self._pending

    def _deadline(self) -> float:
        return self._context.now + max(0, self._timeout_ms) / 1000

    def _expired(self) -> ProduceResponse | NoResponse | None:
        """The time of the request is over: its other batches may still be written."""
        for response in self._unwritten.values():
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._has_failed = True
        return self._answered()

    def _answered(self) -> ProduceResponse | NoResponse | None:
        if self._acks == _NONE:
            return None if self._has_failed else NO_RESPONSE
        return self._response
