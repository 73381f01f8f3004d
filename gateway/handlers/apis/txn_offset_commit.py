"""TxnOffsetCommit (key 28): stores the offsets that a group has read up to, in the transaction of a
producer.

They count once the transaction is committed. From version 5 on the partition of the group is added
to the transaction by this request; before, AddOffsetsToTxn has done so (KIP-890). Version 6 has ids
of topics, as in Kafka 4.4. Source: ``KafkaApis.handleTxnOffsetCommitRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.groups.events import OffsetToCommit, TxnOffsetCommit
from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, has_partition, topic_named, topic_with_id
from gateway.handlers.group_requests import may_on_group, owner_of
from gateway.handlers.transaction_requests import may_on_transaction
from gateway.ports.pending_response import PendingResponse, Work
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.work import in_slices
from kwire.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.topic import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer
    from gateway.ports.transactions import Transactions
    from kwire.message import Message
    from kwire.messages.txn_offset_commit_request import TxnOffsetCommitRequest

API_KEY: Final = ApiKey.TXN_OFFSET_COMMIT
VERSIONS: Final = range(7)

_FIRST_WITH_LOADING: Final = 2
#: The first version whose clients know TRANSACTION_ABORTABLE; the first that adds the partition.
_FIRST_WITH_ABORTABLE: Final = 4
_FIRST_THAT_ADDS: Final = 5
_FIRST_WITH_TOPIC_IDS: Final = 6
#: Errors of the coordinator after which the client asks again.
_RETRIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

_Faults = list[list[ErrorCode]]


def handle(request: TxnOffsetCommitRequest, context: Context) -> Answer:
    """Send the offsets that the client may commit to the coordinator; others get their error."""
    coordinator = context.gateway.transactions
    if coordinator is None or not may_on_transaction(
        context, Operation.WRITE, request.transactional_id
    ):
        return _refuse(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may_on_group(context, Operation.READ, request.group_id):
        return _refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return in_slices(_ask(request, context, coordinator), _size(request))


def _ask(request: TxnOffsetCommitRequest, context: Context, coordinator: Transactions) -> Work:
    faults: _Faults = []
    offsets: list[OffsetToCommit] = []
    by_id = context.version >= _FIRST_WITH_TOPIC_IDS
    for topic in request.topics:
        found = (
            topic_with_id(topic.topic_id, context) if by_id else topic_named(topic.name, context)
        )
        of_topic = ErrorCode.NONE
        if by_id and found is None:
            of_topic = ErrorCode.UNKNOWN_TOPIC_ID
        elif not may(context, Operation.READ, topic.name if found is None else found.name):
            of_topic = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        errors = []
        for said in topic.partitions:
            error = of_topic
            if not error:
                if found is not None and has_partition(found, said.partition_index):
                    offsets.append(_to_commit(found, said))
                else:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors.append(error)
            yield None
        faults.append(errors)
        yield None
    if not offsets:
        return _respond(request, faults)
    return _Commit(request, context, coordinator, faults, tuple(offsets)).begin()


class _Commit:
    """One request: the transaction is verified, then the group keeps the offsets."""

    def __init__(
        self,
        request: TxnOffsetCommitRequest,
        context: Context,
        coordinator: Transactions,
        faults: _Faults,
        offsets: tuple[OffsetToCommit, ...],
    ) -> None:
        self._request = request
        self._context = context
        self._coordinator = coordinator
        self._faults = faults
        self._offsets = offsets
        late = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(offsets)
        # The group's coordinator bounds its own write; this bounds the verification, too.
        timeout_s = context.gateway.config.offsets_commit_timeout_ms / 1000
        self._pending = PendingResponse(
            deadline=context.now + timeout_s, expire=lambda: self._response(iter(late))
        )

    def begin(self) -> PendingResponse:
        """Ask the transaction coordinator whether the producer may write to the partition."""
        request = self._request
        index = self._coordinator.partition_of_group(request.group_id)
        if not request.group_id:
            self._fail(ErrorCode.INVALID_GROUP_ID)
        elif index is None:
            self._fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            self._coordinator.verify(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                [(GROUP_METADATA_TOPIC, index)],
                add=self._context.version >= _FIRST_THAT_ADDS,
                on_done=self._verified,
            )
        return self._pending

    def _verified(self, errors: Mapping[Any, ErrorCode]) -> None:
        (error,) = errors.values()
        if error:
            self._fail(_error_for(error, self._context.version))
            return
        request = self._request
        event = TxnOffsetCommit(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            offsets=self._offsets,
            owner=owner_of(self._context),
        )
        self._context.gateway.groups.submit(event, self)

    def complete(self, result: Any) -> None:
        """Receive the group coordinator's result, a ``CommitResult``."""
        errors = [self._known(error) for error in result.errors]
        self._complete(iter(errors))

    def _fail(self, error: ErrorCode) -> None:
        self._complete(iter([self._known(error)] * len(self._offsets)))

    def _known(self, error: ErrorCode) -> ErrorCode:
        # Old producers could end at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296).
        if self._context.version < _FIRST_WITH_LOADING and (
            error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        ):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return error

    def _complete(self, left: Iterator[ErrorCode]) -> None:
        self._pending.complete(self._response(left))

    def _response(self, left: Iterator[ErrorCode]) -> Message | Streamed:
        merged = [
            [next(left) if error is ErrorCode.NONE else error for error in errors]
            for errors in self._faults
        ]
        return _respond(self._request, merged)


def _error_for(error: ErrorCode, version: int) -> ErrorCode:
    """Return the error of a partition that may not be written, as the group coordinator says it
    (``AddPartitionsToTxnManager``, ``ReplicaManager``).
    """
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error in _RETRIED else error


def _to_commit(topic: Topic, said: Any) -> OffsetToCommit:
    return OffsetToCommit(
        topic=topic.name,
        partition=said.partition_index,
        offset=said.committed_offset,
        leader_epoch=said.committed_leader_epoch,
        metadata=said.committed_metadata or "",
        topic_id=topic.topic_id,
    )


def _refuse(request: TxnOffsetCommitRequest, error: ErrorCode) -> Message | Streamed:
    return _respond(request, [[error] * len(topic.partitions) for topic in request.topics])


def _size(request: TxnOffsetCommitRequest) -> int:
    return sum(1 + len(topic.partitions) for topic in request.topics)


def _respond(request: TxnOffsetCommitRequest, faults: _Faults) -> Message | Streamed:
    topics = (
        filled(
            TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id),
            "partitions",
            _partitions(topic.partitions, errors),
        )
        for topic, errors in zip(request.topics, faults, strict=True)
    )
    return respond(TxnOffsetCommitResponse(), "topics", topics, _size(request))


def _partitions(
    partitions: Iterable[Any], errors: Iterable[ErrorCode]
) -> Iterator[TxnOffsetCommitResponsePartition]:
    for said, error in zip(partitions, errors, strict=True):
        yield TxnOffsetCommitResponsePartition(
            partition_index=said.partition_index, error_code=error
        )
