"""Counts the records on their way to the transaction log, and applies each once it is there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gateway.broker.transactions.effects import Append, Effect, Moment
from gateway.broker.transactions.records import transaction_key, transaction_value
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.transactions.transaction import Transaction
    from gateway.broker.transactions.transaction_log import Entry, LedPartition, TransactionLog

#: The answer to a client whose record could not be appended, by the error of the append.
_ANSWERS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

#: Is called with the error for the client, or NONE, when the record is in the log.
Then = Callable[[ErrorCode, Moment], None]


@dataclass(frozen=True, slots=True)
class _Appending:
    """The next state of an entry, None if it is deleted, and who waits for it."""

    entry: Entry
    target: Transaction | None
    then: Then


class Appends:
    """The records on their way, by their number. ``effects`` takes what is to be done."""

    def __init__(self, log: TransactionLog, effects: list[Effect]) -> None:
        self._log = log
        self._effects = effects
        self._number = 0
        self._appending: dict[int, _Appending] = {}

    def append(self, entry: Entry, target: Transaction | None, moment: Moment, then: Then) -> None:
        """Append the next state of ``entry``, or its end (None). Until that is done it refuses
        every other one.
        """
        self._number += 1
        entry.pending = entry.transaction if target is None else target
        self._appending[self._number] = _Appending(entry, target, then)
        self._effects.append(
            Append(
                self._number,
                entry.partition.index,
                entry.partition.epoch,
                transaction_key(entry.transaction.transactional_id),
                None if target is None else transaction_value(target, moment.transaction_version),
            )
        )

    def done(self, number: int, error: ErrorCode, moment: Moment) -> None:
        """The append of this number has succeeded or failed."""
        appending = self._appending.pop(number, None)
        if appending is None:
            return  # its partition was given up, and those who wait have their answer
        entry = appending.entry
        if not error and appending.target is not None:
            entry.transaction = appending.target
        elif not error:
            del entry.partition.entries[entry.transaction.transactional_id]
        entry.pending = None
        appending.then(_ANSWERS.get(error, error), moment)

    def drop(self, led: LedPartition, moment: Moment) -> None:
        """The partition was given up: whether its records get into the log is not known."""
        for number, appending in list(self._appending.items()):
            if appending.entry.partition is led:
                del self._appending[number]
                appending.then(ErrorCode.NOT_COORDINATOR, moment)
