"""AddPartitionsToTxn (key 24): adds partitions to the transaction of a producer.

Versions 0 to 3 are those of clients, with one transaction. Later ones are those of brokers
(KIP-890), with many, and may ask whether partitions are in one without adding them. One partition
that may not be written, or does not exist, refuses its transaction's others. Source:
``KafkaApis.handleAddPartitionsToTxnRequest``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gateway.broker.transactions.events import AddPartitions, VerifyPartitions
from gateway.broker.transactions.transaction import Producer, TopicPartition
from gateway.handlers.access import Operation, may, may_on_cluster
from gateway.handlers.catalog import has_partition, topic_named
from gateway.handlers.topic import INTERNAL_TOPICS
from gateway.handlers.transaction_requests import (
    WITH_BUMPS,
    WITHOUT_BUMPS,
    error_for,
    may_on_transaction,
)
from gateway.ports.pending_response import PendingResponse, Work
from gateway.ports.streamed import Streamed, filled, respond
from gateway.ports.work import in_slices
from kwire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from kwire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer
    from kwire.message import Message
    from kwire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest

API_KEY: Final = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS: Final = range(6)

_FIRST_OF_BROKERS: Final = 4
_FIRST_WITH_FENCED: Final = 2

#: The errors of a transaction's partitions.
_Errors = Mapping[TopicPartition, ErrorCode]


def handle(request: AddPartitionsToTxnRequest, context: Context) -> Answer:
    """Have the coordinator add, or verify, the partitions."""
    if context.version < _FIRST_OF_BROKERS:
        wanted = [
            AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    elif may_on_cluster(context, Operation.CLUSTER_ACTION):
        wanted = request.transactions
    else:
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    size = sum(1 + len(topic.partitions) for one in wanted for topic in one.topics)
    return in_slices(_Request(wanted, context).run(), size)


class _Request:
    """One request, until each of its transactions has an answer."""

    def __init__(self, wanted: list[AddPartitionsToTxnTransaction], context: Context) -> None:
        self._wanted = wanted
        self._context = context
        self._results: dict[int, _Errors] = {}  # by the place of the transaction
        self._pending: PendingResponse | None = None

    def run(self) -> Work:
        """Ask for every transaction."""
        for at, one in enumerate(self._wanted):
            faults = yield from self._faults(one)
            if faults:
                self._results[at] = faults
            else:
                self._ask(at, one)
            yield None
        if len(self._results) == len(self._wanted):
            return self._respond()
        self._pending = PendingResponse()
        return self._pending

    def _faults(self, one: AddPartitionsToTxnTransaction) -> Any:
        """Return the errors of a transaction that may not be asked for; work in slices."""
        context = self._context
        is_of_client = context.version < _FIRST_OF_BROKERS
        if is_of_client and not may_on_transaction(context, Operation.WRITE, one.transactional_id):
            fault = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return dict.fromkeys(_partitions(one), fault)
        faults: dict[TopicPartition, ErrorCode] = {}
        for topic in one.topics:
            name = topic.name
            # Internal topics are written by coordinators alone.
            is_allowed = not is_of_client or (
                name not in INTERNAL_TOPICS and may(context, Operation.WRITE, name)
            )
            found = topic_named(name, context)
            for index in topic.partitions:
                if not is_allowed:
                    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                elif found is None or not has_partition(found, index):
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    error = ErrorCode.OPERATION_NOT_ATTEMPTED
                faults[TopicPartition(name, index)] = error
                yield None
        is_fine = all(error is ErrorCode.OPERATION_NOT_ATTEMPTED for error in faults.values())
        return {} if is_fine and faults else faults

    def _ask(self, at: int, one: AddPartitionsToTxnTransaction) -> None:
        wanted = frozenset(_partitions(one))
        producer = Producer(one.producer_id, one.producer_epoch)
        event: AddPartitions | VerifyPartitions
        if one.verify_only:
            event = VerifyPartitions(one.transactional_id, producer, wanted)
        else:
            is_of_broker = self._context.version >= _FIRST_OF_BROKERS
            level = WITH_BUMPS if is_of_broker else WITHOUT_BUMPS
            event = AddPartitions(one.transactional_id, producer, wanted, level)
        coordinator = self._context.gateway.transactions
        if coordinator is None:
            self._answered(at, event.failed(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        else:
            coordinator.submit(event, lambda result: self._answered(at, result))

    def _answered(self, at: int, result: _Errors | ErrorCode) -> None:
        if isinstance(result, ErrorCode):
            error = error_for(result, self._context, _FIRST_WITH_FENCED)
            result = dict.fromkeys(_partitions(self._wanted[at]), error)
        self._results[at] = result
        if self._pending is not None and len(self._results) == len(self._wanted):
            self._pending.complete(self._respond())

    def _respond(self) -> Message | Streamed:
        response = AddPartitionsToTxnResponse()
        if self._context.version < _FIRST_OF_BROKERS:
            topics = self._wanted[0].topics
            size = sum(1 + len(topic.partitions) for topic in topics)
            return respond(response, "results_by_topic_v3_and_below", self._topics(0), size)
        results = (
            Streamed(
                AddPartitionsToTxnResult(transactional_id=one.transactional_id),
                "topic_results",
                self._topics(at),
            )
            for at, one in enumerate(self._wanted)
        )
        size = sum(1 + len(topic.partitions) for one in self._wanted for topic in one.topics)
        return respond(response, "results_by_transaction", results, size)

    def _topics(self, at: int) -> Iterator[AddPartitionsToTxnTopicResult | Streamed]:
        errors = self._results[at]
        for topic in self._wanted[at].topics:
            partitions = (
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=errors[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            )
            yield filled(
                AddPartitionsToTxnTopicResult(name=topic.name), "results_by_partition", partitions
            )


def _partitions(one: AddPartitionsToTxnTransaction) -> Iterator[TopicPartition]:
    for topic in one.topics:
        for index in topic.partitions:
            yield TopicPartition(topic.name, index)
