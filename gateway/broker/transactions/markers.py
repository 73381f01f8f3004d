"""Has the markers of prepared transactions written, until every partition has one, and completes
them then (``TransactionMarkerChannelManager``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.effects import (
    Effect,
    Moment,
    RetryLater,
    Stuck,
    WriteMarkers,
)
from gateway.broker.transactions.transaction import TopicPartition, TransactionState
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.transactions.appends import Appends
    from gateway.broker.transactions.transaction import Transaction
    from gateway.broker.transactions.transaction_log import Entry, LedPartition

#: Answers of a partition that needs no marker any more: it has one, or it was deleted.
_MARKED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
#: Answers of a partition that never takes the marker: it has a later one.
_REFUSED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class _Marking:
    """A prepared transaction, and the partitions from which an answer is missing."""

    def __init__(self, entry: Entry, target: Transaction) -> None:
        self.entry = entry
        self.target = target
        self.unanswered: set[TopicPartition] = set()
        self.is_stuck = False


class Markers:
    """The transactions whose markers are being written, by a number."""

    def __init__(self, appends: Appends, effects: list[Effect]) -> None:
        self._appends = appends
        self._effects = effects
        self._number = 0
        self._marking: dict[int, _Marking] = {}

    def begin(self, entry: Entry, moment: Moment) -> None:
        """Have the markers of a prepared transaction written. It refuses every request until it is
        complete.
        """
        target = entry.transaction.completed(moment.wall_ms)
        entry.pending = target
        entry.unmarked = set(entry.transaction.partitions)
        self._number += 1
        self._marking[self._number] = _Marking(entry, target)
        self._go_on(self._number, moment)

    def marked(self, number: int, where: TopicPartition, error: ErrorCode, moment: Moment) -> None:
        """A partition has answered."""
        marking = self._marking.get(number)
        if marking is None or where not in marking.unanswered:
            return
        marking.unanswered.discard(where)
        if error in _MARKED:
            marking.entry.unmarked.discard(where)
        elif error in _REFUSED:
            marking.is_stuck = True
            name = marking.entry.transaction.transactional_id
            self._effects.append(Stuck(name, where, error.name))
        if marking.unanswered:
            return
        if marking.is_stuck:
            del self._marking[number]
        elif marking.entry.unmarked:
            self._effects.append(RetryLater(number))
        else:
            self._go_on(number, moment)

    def retry(self, number: int, moment: Moment) -> None:
        """The pause after a failure is over."""
        if number in self._marking:
            self._go_on(number, moment)

    def drop(self, led: LedPartition) -> None:
        """The partition was given up: the next coordinator writes the markers."""
        self._marking = {
            number: one for number, one in self._marking.items() if one.entry.partition is not led
        }

    def _go_on(self, number: int, moment: Moment) -> None:
        marking = self._marking[number]
        entry, prepared = marking.entry, marking.entry.transaction
        if not entry.unmarked:
            self._complete(number, marking, moment)
            return
        marking.unanswered = set(entry.unmarked)
        self._effects.append(
            WriteMarkers(
                number,
                entry.partition.epoch,
                prepared.producer_id,
                prepared.producer_epoch,
                prepared.state is TransactionState.PREPARE_COMMIT,
                prepared.client_version,
                frozenset(entry.unmarked),
            )
        )

    def _complete(self, number: int, marking: _Marking, moment: Moment) -> None:
        def then(error: ErrorCode, now: Moment) -> None:
            if number not in self._marking:
                return
            if error:
                # All markers are written: only the record is missing.
                marking.entry.pending = marking.target
                self._effects.append(RetryLater(number))
            else:
                del self._marking[number]

        self._appends.append(marking.entry, marking.target, moment, then)
