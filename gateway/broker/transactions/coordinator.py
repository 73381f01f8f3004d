"""Carries transactions from state to state: initializes and fences producers, opens transactions,
ends them, has their markers written.

An event in, effects out: no clock, no I/O. A state counts once its record is in the log
(``on_appended``), and only then is anyone answered. The outcome of a transaction is decided by the
record of its prepared state: after that its markers are written until all of them are, also after a
restart. Follows Kafka's ``TransactionCoordinator`` (KIP-98, KIP-360, KIP-588, KIP-890); two-phase
commits (KIP-939) are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from gateway.base.slices import Slices, pieces
from gateway.broker.transactions.appends import Appends
from gateway.broker.transactions.effects import Allocate, Answer, Asked, Effect, Moment
from gateway.broker.transactions.end import decide_end
from gateway.broker.transactions.events import (
    AbortTimedOut,
    AddPartitions,
    EndTransaction,
    Event,
    InitProducer,
    ProducerResult,
    Result,
    VerifyPartitions,
)
from gateway.broker.transactions.markers import Markers
from gateway.broker.transactions.transaction import (
    BUMPS_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    FencedError,
    Producer,
    TopicPartition,
    Transaction,
    TransactionState,
)
from gateway.broker.transactions.transaction_log import (
    Entry,
    LedPartition,
    TransactionCounts,
    TransactionLog,
)
from kwire.protocol import ErrorCode

#: Transactional ids that are looked at between two slices: less than 1 ms.
_IDS_PER_SLICE: Final = 500


class TransactionCoordinator:
    """Coordinates the transactions in the partitions of the log that this node leads.

    Each call returns its effects in the order in which the driver must carry them out.
    """

    def __init__(self, *, max_timeout_ms: int, expiration_ms: int) -> None:
        """``max_timeout_ms``: ``transaction.max.timeout.ms``. ``expiration_ms``:
        ``transactional.id.expiration.ms``.
        """
        self.log = TransactionLog()
        #: As of the last :meth:`timed_out`; None before.
        self.counts: TransactionCounts | None = None
        self._max_timeout_ms = max_timeout_ms
        self._expiration_ms = expiration_ms
        self._effects: list[Effect] = []
        self._appends = Appends(self.log, self._effects)
        self._markers = Markers(self._appends, self._effects)

    def _drain(self) -> list[Effect]:
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    # --- the partitions of the log
    # ---------------------------------------------------------------------------------------------

    def load(
        self, led: LedPartition, transactions: Mapping[str, Transaction], moment: Moment
    ) -> Slices[list[Effect]]:
        """Take the transactions of a partition that was loading. Markers of those that are prepared
        are written again. Nothing happens if the partition is given up meanwhile.
        """
        prepared = []
        for some in pieces(transactions.items(), _IDS_PER_SLICE):
            for name, one in some:
                led.entries[name] = entry = Entry(led, one)
                if one.state.is_prepared:
                    prepared.append(entry)
            yield
        if not self.log.leads(led):
            return []
        led.is_loaded = True
        for entry in prepared:
            self._markers.begin(entry, moment)
        return self._drain()

    def resign(self, index: int) -> list[Effect]:
        """Give up a partition: those who wait for a record of it are answered."""
        led = self.log.resign(index)
        if led is not None:
            self._markers.drop(led)
            self._appends.drop(led, Moment(0, 0))
        return self._drain()

    def on_appended(self, number: int, error: ErrorCode, moment: Moment) -> list[Effect]:
        """The record of an ``Append`` is in the log, or could not be appended."""
        self._appends.done(number, error, moment)
        return self._drain()

    def on_marked(
        self, number: int, where: TopicPartition, error: ErrorCode, moment: Moment
    ) -> list[Effect]:
        """A partition has the marker of a ``WriteMarkers``, or refused it."""
        self._markers.marked(number, where, error, moment)
        return self._drain()

    def on_retry(self, number: int, moment: Moment) -> list[Effect]:
        """The pause of a ``RetryLater`` is over."""
        self._markers.retry(number, moment)
        return self._drain()

    # --- requests
    # ---------------------------------------------------------------------------------------------

    def handle(
        self, event: Event, token: Any, moment: Moment, producer_id: int = NO_PRODUCER_ID
    ) -> list[Effect]:
        """Carry out one request. ``producer_id``: an id that was allocated for it."""
        asked = Asked(event, token)
        match event:
            case InitProducer():
                self._initialize(event, asked, moment, producer_id)
            case AddPartitions():
                self._add_partitions(event, asked, moment)
            case VerifyPartitions():
                self._verify(event, asked)
            case EndTransaction():
                self._end(event, asked, moment, producer_id)
            case AbortTimedOut():
                self._time_out(event, asked, moment, producer_id)
        return self._drain()

    def _answer(self, asked: Asked, result: Result) -> None:
        self._effects.append(Answer(asked, result))

    def _fail(self, asked: Asked, error: ErrorCode) -> None:
        self._answer(asked, asked.event.failed(error))

    # InitProducerId.

    def _initialize(
        self, event: InitProducer, asked: Asked, moment: Moment, producer_id: int
    ) -> None:
        fault = self._init_fault(event)
        if fault:
            self._fail(asked, fault)
            return
        led = self.log.partition_for(event.transactional_id)
        if isinstance(led, ErrorCode):
            self._fail(asked, led)
            return
        entry = led.entries.get(event.transactional_id)
        if entry is None:
            if producer_id == NO_PRODUCER_ID:
                self._effects.append(Allocate(asked))
                return
            new = Transaction(
                event.transactional_id, producer_id, NO_EPOCH, event.timeout_ms, moment.wall_ms
            )
            entry = led.entries[event.transactional_id] = Entry(led, new)
        if entry.pending is not None or entry.transaction.state.is_prepared:
            self._fail(asked, ErrorCode.CONCURRENT_TRANSACTIONS)
        elif not entry.transaction.may_be_followed(event.expected):
            self._fail(asked, ErrorCode.PRODUCER_FENCED)
        elif entry.transaction.state is TransactionState.ONGOING:
            # The epoch of the abort is given to no producer: the client asks again, and gets the
            # next one.
            result = event.failed(ErrorCode.CONCURRENT_TRANSACTIONS)
            self._abort_fenced(entry, asked, moment, producer_id, lambda _: result)
        else:
            self._initialize_idle(entry, event, asked, moment, producer_id)

    def _init_fault(self, event: InitProducer) -> ErrorCode:
        if not event.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if event.is_two_phase:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if event.keeps_prepared:
            return ErrorCode.UNSUPPORTED_VERSION
        if not 0 < event.timeout_ms <= self._max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return ErrorCode.NONE

    def _initialize_idle(
        self, entry: Entry, event: InitProducer, asked: Asked, moment: Moment, producer_id: int
    ) -> None:
        before, expected = entry.transaction, event.expected
        epoch = None if expected is None else expected.epoch
        if before.is_epoch_exhausted and epoch in (None, before.producer_epoch):
            if producer_id == NO_PRODUCER_ID:
                self._effects.append(Allocate(asked))
                return
            target = before.rotated(
                producer_id,
                event.timeout_ms,
                moment.wall_ms,
                keeps_last_epoch=expected is not None,
            )
        else:
            try:
                target = before.initialized(event.timeout_ms, epoch, moment.wall_ms)
            except FencedError:
                self._fail(asked, ErrorCode.PRODUCER_FENCED)
                return
        self._appends.append(entry, target, moment, partial(self._initialized, entry, asked))

    def _initialized(self, entry: Entry, asked: Asked, error: ErrorCode, moment: Moment) -> None:
        after = entry.transaction
        if not error:
            result = ProducerResult(ErrorCode.NONE, after.producer_id, after.producer_epoch)
            self._answer(asked, result)
            return
        if after.producer_epoch == NO_EPOCH:
            entry.partition.entries.pop(after.transactional_id, None)  # it is not in the log
        self._fail(asked, error)

    # Partitions.

    def _add_partitions(self, event: AddPartitions, asked: Asked, moment: Moment) -> None:
        entry = self.log.find(event.transactional_id)
        if isinstance(entry, ErrorCode):
            self._fail(asked, entry)
            return
        before = entry.transaction
        fault = _producer_fault(before, event.producer)
        if entry.pending is not None or fault:
            self._fail(asked, fault if entry.pending is None else ErrorCode.CONCURRENT_TRANSACTIONS)
        elif before.state is TransactionState.ONGOING and event.partitions <= before.partitions:
            self._answer(asked, ErrorCode.NONE)
        else:
            target = before.with_partitions(event.partitions, event.client_version, moment.wall_ms)
            self._appends.append(entry, target, moment, lambda error, _: self._answer(asked, error))

    def _verify(self, event: VerifyPartitions, asked: Asked) -> None:
        entry = self.log.find(event.transactional_id)
        if isinstance(entry, ErrorCode):
            self._fail(asked, entry)
            return
        known = entry.transaction
        # A transition on its way is not asked for: the append to the partition's log decides.
        fault = _producer_fault(known, event.producer)
        if fault:
            self._fail(asked, fault)
        else:
            self._answer(
                asked,
                {
                    one: ErrorCode.NONE
                    if one in known.partitions
                    else ErrorCode.TRANSACTION_ABORTABLE
                    for one in event.partitions
                },
            )

    # Ends.

    def _end(self, event: EndTransaction, asked: Asked, moment: Moment, producer_id: int) -> None:
        entry = self.log.find(event.transactional_id)
        if isinstance(entry, ErrorCode):
            self._fail(asked, entry)
            return
        before, bumps = entry.transaction, event.client_version >= BUMPS_EPOCH
        decided = decide_end(before, event, is_pending=entry.pending is not None)
        if decided is not None:
            # A client that asks again has not got the first answer, and with it its new epoch.
            is_repeated = decided is ErrorCode.NONE and bumps
            self._answer(asked, _now(before) if is_repeated else event.failed(decided))
        elif bumps and before.is_epoch_exhausted and producer_id == NO_PRODUCER_ID:
            self._effects.append(Allocate(asked))
        else:
            target = before.prepared(
                commits=event.commits,
                client_version=event.client_version if bumps else 0,
                next_producer_id=producer_id
                if bumps and before.is_epoch_exhausted
                else NO_PRODUCER_ID,
                now_ms=moment.wall_ms,
            )
            self._prepare(entry, target, asked, moment, _now)

    def _time_out(
        self, event: AbortTimedOut, asked: Asked, moment: Moment, producer_id: int
    ) -> None:
        entry = self.log.find(event.transactional_id)
        if isinstance(entry, ErrorCode):
            self._fail(asked, entry)
            return
        known = entry.transaction
        is_open = entry.pending is None and known.state is TransactionState.ONGOING
        if not is_open or known.producer != event.producer:
            self._fail(asked, ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            self._abort_fenced(entry, asked, moment, producer_id, _now)

    def _abort_fenced(
        self,
        entry: Entry,
        asked: Asked,
        moment: Moment,
        producer_id: int,
        result: Callable[[Transaction], Result],
    ) -> None:
        """Abort an open transaction with an epoch that its producer does not have."""
        before, level = entry.transaction, moment.transaction_version
        bumps = level >= BUMPS_EPOCH
        needs_id = bumps and before.is_epoch_exhausted
        if needs_id and producer_id == NO_PRODUCER_ID:
            self._effects.append(Allocate(asked))
            return
        target = (before if bumps else before.fenced()).prepared(
            commits=False,
            client_version=level if bumps else 0,
            next_producer_id=producer_id if needs_id else NO_PRODUCER_ID,
            now_ms=moment.wall_ms,
        )
        self._prepare(entry, target, asked, moment, result)

    def _prepare(
        self,
        entry: Entry,
        target: Transaction,
        asked: Asked,
        moment: Moment,
        result: Callable[[Transaction], Result],
    ) -> None:
        """Decide the outcome of a transaction. ``result``: the answer once the decision is in the
        log; it is given what the transaction will be.
        """

        def then(error: ErrorCode, now: Moment) -> None:
            if error:
                self._fail(asked, error)
                return
            self._answer(asked, result(entry.transaction.completed(now.wall_ms)))
            self._markers.begin(entry, now)

        self._appends.append(entry, target, moment, then)

    # --- time
    # ---------------------------------------------------------------------------------------------

    def timed_out(self, now_ms: int) -> Slices[list[AbortTimedOut]]:
        """Return an event for each transaction whose time is over, and count all of them."""
        found = []
        by_state: Counter[TransactionState] = Counter()
        unmarked = 0
        for some in pieces(self.log.entries(), _IDS_PER_SLICE):
            for one in some:
                known = one.transaction
                by_state[known.state] += 1
                unmarked += len(one.unmarked)
                is_open = one.pending is None and known.state is TransactionState.ONGOING
                if is_open and known.started_ms + known.timeout_ms < now_ms:
                    found.append(AbortTimedOut(known.transactional_id, known.producer))
            yield
        self.counts = TransactionCounts(by_state, unmarked)
        return found

    def expire(self, moment: Moment) -> Slices[list[Effect]]:
        """Delete the transactional ids that were not used for
        ``transactional.id.expiration.ms``.
        """
        effects: list[Effect] = []
        for some in pieces(self.log.entries(), _IDS_PER_SLICE):
            for one in some:
                known = one.transaction
                age_ms = moment.wall_ms - known.updated_ms
                if one.pending is None and known.state.is_idle and age_ms >= self._expiration_ms:
                    self._appends.append(one, None, moment, lambda error, now: None)
            effects += self._drain()
            yield
        return effects


def _now(known: Transaction) -> ProducerResult:
    return ProducerResult(ErrorCode.NONE, known.producer_id, known.producer_epoch)


def _producer_fault(known: Transaction, producer: Producer) -> ErrorCode:
    """Return why the producer may not write."""
    if known.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if known.state.is_prepared else ErrorCode.NONE
