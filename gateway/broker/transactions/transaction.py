"""Defines the state of one transactional id, and the states that may follow it.

A transaction is a value: each function returns the next one, which counts from the moment at which
its record is in the log. It decides nothing about requests: ``coordinator`` does. Follows Kafka's
``TransactionMetadata`` and ``TransactionState`` (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
_EPOCH_MAX: Final = (1 << 15) - 1
#: The last epoch that a producer gets: one more is left, with which it can be fenced.
LAST_EPOCH: Final = _EPOCH_MAX - 1
#: The first level of ``transaction.version`` at which each end of a transaction bumps the epoch.
BUMPS_EPOCH: Final = 2


class TopicPartition(NamedTuple):
    """A partition of a topic by name."""

    topic: str
    partition: int


class Producer(NamedTuple):
    """The id and the epoch of a producer."""

    producer_id: int
    epoch: int


class TransactionState(enum.IntEnum):
    """The numbers are those of the log's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name, such as ``PrepareCommit``."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is open."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


#: The states by the names with which clients filter.
STATES_BY_LABEL: Final = {state.label: state for state in TransactionState}


class FencedError(Exception):
    """The producer expects an epoch that is neither the newest nor the one before it."""


def is_exhausted(epoch: int) -> bool:
    """Whether no further producer may have the id of ``epoch``."""
    return epoch >= LAST_EPOCH


@dataclass(frozen=True, slots=True)
class Transaction:
    """The transactional id, its producer, and its newest transaction. Times are ms since the epoch.

    ``previous_producer_id``: that of the state before this one. ``next_producer_id``: the id that
    replaces an exhausted one when the markers are written. ``client_version``: the level of
    ``transaction.version`` at which the producer speaks.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1
    client_version: int = 0

    @property
    def producer(self) -> Producer:
        """The producer that may write."""
        return Producer(self.producer_id, self.producer_epoch)

    def may_be_followed(self, expected: Producer | None) -> bool:
        """Whether a client that was ``expected`` is the producer of now, or the one before it
        (KIP-360). None: it was none.
        """
        return (
            expected is None
            or self.producer_epoch == NO_EPOCH
            or expected.producer_id == self.producer_id
            # It did not get the answer with the new id.
            or (expected.producer_id == self.previous_producer_id and is_exhausted(expected.epoch))
        )

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs another id."""
        return is_exhausted(self.producer_epoch)

    def initialized(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> Transaction:
        """Return the state of the next producer. Raises FencedError.

        ``expected_epoch``: of a producer that goes on after an error (KIP-360). It gets the same
        answer again if it did not get it before.
        """
        epoch, last = self.producer_epoch + 1, NO_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_EPOCH, expected_epoch):
                last = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last = self.producer_epoch, self.last_producer_epoch
            else:
                raise FencedError
        return self._emptied(self.producer_id, epoch, last, timeout_ms, now_ms)

    def rotated(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> Transaction:
        """Return the state of the next producer, with a new id."""
        last = self.producer_epoch if keeps_last_epoch else NO_EPOCH
        return self._emptied(producer_id, 0, last, timeout_ms, now_ms)

    def _emptied(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        return self._next(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=-1,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> Transaction:
        """Return the open transaction with these partitions, too."""
        return self._next(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, commits: bool, client_version: int, next_producer_id: int, now_ms: int
    ) -> Transaction:
        """Return the transaction whose outcome is decided."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version >= BUMPS_EPOCH:
            epoch, last = min(epoch + 1, _EPOCH_MAX), epoch
        return self._next(
            TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            # An abort without a partition has no start, and the state needs one.
            started_ms=now_ms if self.state.is_idle else self.started_ms,
            client_version=client_version,
        )

    def fenced(self) -> Transaction:
        """Return this with an epoch that no producer has, for a state that follows it."""
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, _EPOCH_MAX),
            last_producer_epoch=NO_EPOCH,
        )

    def completed(self, now_ms: int) -> Transaction:
        """Return the transaction whose markers are written."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.client_version >= BUMPS_EPOCH and self.next_producer_id != NO_PRODUCER_ID
        return self._next(
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            now_ms,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    def _next(self, state: TransactionState, now_ms: int, **fields: object) -> Transaction:
        return replace(
            self,
            state=state,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            **fields,  # type: ignore[arg-type]
        )
