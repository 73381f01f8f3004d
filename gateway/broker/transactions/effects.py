"""Defines the effects of the transaction coordinator, which its driver carries out in order, and
the moment of an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.broker.transactions.transaction import TopicPartition

if TYPE_CHECKING:
    from gateway.broker.transactions.events import Event, Result


class Moment(NamedTuple):
    """When an event comes: ms since the epoch, and the level of ``transaction.version``."""

    wall_ms: int
    transaction_version: int


class Asked(NamedTuple):
    """An event and its token, which the coordinator never reads."""

    event: Event
    token: Any


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate a producer id, and have the coordinator handle ``asked`` again with it."""

    asked: Asked


@dataclass(frozen=True, slots=True)
class Append:
    """Append a record to a partition of the log that this node leads in ``epoch``, and call
    ``on_appended`` with ``number``. A value of None deletes.
    """

    number: int
    partition: int
    epoch: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the marker of a transaction's end to each partition, and call ``on_marked`` with
    ``number`` for each.
    """

    number: int
    coordinator_epoch: int
    producer_id: int
    producer_epoch: int
    commits: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Call ``on_retry`` with ``number`` after a pause."""

    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Give the result to the one that asked. Everything that it says is in the log."""

    asked: Asked
    result: Result


@dataclass(frozen=True, slots=True)
class Stuck:
    """A partition refuses the marker of a transaction for good: it stays prepared until the log is
    loaded again.
    """

    transactional_id: str
    where: TopicPartition
    error: str


Effect = Allocate | Append | WriteMarkers | RetryLater | Answer | Stuck
