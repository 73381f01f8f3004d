"""Asks the transaction coordinators on other brokers whether transactions have the partitions that
their producers write to on this one (KIP-890). Follows Kafka's ``AddPartitionsToTxnManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.transaction import TopicPartition
from gateway.server.broker.broker_requests import by_topic, take_each_once
from kwire.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol import ErrorCode, known_error

if TYPE_CHECKING:
    from gateway.broker.transactions.transaction import Producer
    from kwire.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse

#: Partitions of one request, at most, unless a single question has more.
_PARTITIONS_MAX: Final = 5000


@dataclass(frozen=True, slots=True)
class Question:
    """Whether the open transaction of ``producer`` has ``partitions``; with ``adds`` they are added
    to it. ``on_done`` is called once with the errors.
    """

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    adds: bool
    on_done: Callable[[Mapping[tuple[str, int], ErrorCode]], None]


class VerificationRequests:
    """``RequestKind`` of AddPartitionsToTxn in the versions of brokers."""

    versions: Final = range(4, 6)

    def take(self, waiting: deque[Question]) -> list[Question]:
        """Take one question a transactional id: the response tells them apart by it."""
        return take_each_once(waiting, lambda one: one.transactional_id, _PARTITIONS_MAX)

    def request(self, entries: Sequence[Question]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer.producer_id,
                    producer_epoch=one.producer.epoch,
                    verify_only=not one.adds,
                    topics=[
                        AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                        for topic, numbers in by_topic(one.partitions).items()
                    ],
                )
                for one in entries
            ]
        )

    def answered(
        self, entries: Sequence[Question], response: AddPartitionsToTxnResponse | None
    ) -> None:
        """Tell those who asked. A partition without an answer has not been verified."""
        fault = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
        if fault == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            # The fault of this broker, not of the producer's principal.
            fault = ErrorCode.INVALID_TXN_STATE
        results = {} if response is None else _results(response)
        for one in entries:
            found = results.get(one.transactional_id, {})
            missing = known_error(fault or ErrorCode.UNKNOWN_SERVER_ERROR)
            errors: dict[tuple[str, int], ErrorCode] = {
                where: found.get(where, missing) for where in one.partitions
            }
            one.on_done(errors)


def _results(
    response: AddPartitionsToTxnResponse,
) -> dict[str, dict[TopicPartition, ErrorCode]]:
    return {
        one.transactional_id: {
            TopicPartition(topic.name, of.partition_index): known_error(of.partition_error_code)
            for topic in one.topic_results
            for of in topic.results_by_partition
        }
        for one in response.results_by_transaction
    }
