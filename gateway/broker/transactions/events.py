"""Defines the events of the transaction coordinator, and their results.

Handlers make an event from a request and a response from its result. ``failed`` of an event is its
result when the coordinator could not carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.broker.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Producer,
    TopicPartition,
)
from kwire.protocol import ErrorCode


class ProducerResult(NamedTuple):
    """The producer that the client is from now on, or an error."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class InitProducer:
    """An InitProducerId request with a transactional id.

    ``expected``: the producer that the client was, and that it recovers (KIP-360).
    ``is_two_phase`` and ``keeps_prepared``: KIP-939.
    """

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    is_two_phase: bool = False
    keeps_prepared: bool = False

    def failed(self, error: ErrorCode) -> ProducerResult:
        return ProducerResult(error)


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions that the producer will write to. ``client_version`` is the level of
    ``transaction.version`` at which it speaks.
    """

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int = 0

    def failed(self, error: ErrorCode) -> ErrorCode:
        return error


@dataclass(frozen=True, slots=True)
class VerifyPartitions:
    """A question of a partition's leader, whether the partitions are in the open transaction."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]

    def failed(self, error: ErrorCode) -> Mapping[TopicPartition, ErrorCode]:
        return dict.fromkeys(self.partitions, error)


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """An EndTxn request."""

    transactional_id: str
    producer: Producer
    commits: bool
    client_version: int = 0

    def failed(self, error: ErrorCode) -> ProducerResult:
        return ProducerResult(error)


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """The time of the transaction that this producer has open is over."""

    transactional_id: str
    producer: Producer

    def failed(self, error: ErrorCode) -> ProducerResult:
        return ProducerResult(error)


Event = InitProducer | AddPartitions | VerifyPartitions | EndTransaction | AbortTimedOut
Result = ProducerResult | ErrorCode | Mapping[TopicPartition, ErrorCode]
