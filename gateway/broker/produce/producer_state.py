"""Keeps what a partition knows of each idempotent producer: epoch, newest batches, the transaction
that is open; finds batches that come twice, out of order, or outside of a transaction.

It is a fold over the batches of the log: ``check`` decides about a batch that is to be appended,
``append`` notes one that is in the log. It reads and writes no file (``producer_snapshot``,
``gateway.sources.producer_log``). Of producers without an open transaction the newest
``PRODUCERS_MAX`` of ``producer.id.expiration.ms`` are kept, while Kafka keeps all of them. Source:
``ProducerStateManager``, ``ProducerAppendInfo``, ``VerificationStateEntry`` (KIP-890).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from gateway.broker.produce.refusal import BatchRefused
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.produce.marker import Marker
    from kwire.records.header import BatchHeader

#: Batches of a producer that may be in flight, and are recognized when they come again
#: (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``).
BATCHES_MAX: Final = 5
#: Producers that a partition keeps: each may be of a client that made its id up. As many more may
#: have a transaction open.
PRODUCERS_MAX: Final = 10_000
#: The transaction version whose markers have an epoch of their own (KIP-890).
_EPOCH_BUMPED: Final = 2
_INT16_MAX: Final = (1 << 15) - 1
_INT32_MAX: Final = (1 << 31) - 1


class BatchSeen(NamedTuple):
    """A batch that was appended (``BatchMetadata``)."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerState:
    """A producer of the partition (``ProducerStateEntry``); -1 stands for none."""

    producer_id: int
    epoch: int
    coordinator_epoch: int = -1  #: of the newest marker
    timestamp: int = -1  #: of the newest batch or marker, ms
    txn_first_offset: int = -1  #: where the open transaction begins
    #: The newest batches of the epoch, the newest last.
    batches: deque[BatchSeen] = field(default_factory=lambda: deque(maxlen=BATCHES_MAX))

    @property
    def last_sequence(self) -> int:
        """The newest sequence number of the epoch."""
        return self.batches[-1].last_sequence if self.batches else -1


class CompletedTxn(NamedTuple):
    """A transaction that a marker ended. ``last_offset`` is the marker's; no transaction of another
    producer is open below ``last_stable_offset``.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool


class Verification:
    """Stands for one question to the coordinator whether a producer's transaction has the
    partition. The request that asked may append when the answer comes, unless a batch or a marker
    of the producer was appended meanwhile (``VerificationGuard``). ``bumps_epoch``: each
    transaction of the producer has an epoch of its own.
    """

    __slots__ = ("bumps_epoch", "epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, bumps_epoch: bool = False) -> None:
        self.bumps_epoch = bumps_epoch
        self.epoch = epoch
        self.lowest_sequence = sequence

    def outlives(self, marker: BatchHeader) -> bool:
        """Whether it is of the transaction behind the one that ``marker`` ends. The marker has the
        epoch of that transaction, whose producer need not wait until markers are written.
        """
        return self.bumps_epoch and marker.is_control and marker.producer_epoch == self.epoch


class ProducerStates:
    """The producers of one partition."""

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        """``states`` are those of an earlier time, as ``all`` returned them."""
        # Those that were silent longest first.
        self._idle: dict[int, ProducerState] = {}
        # Those with an open transaction, in the order in which the transactions began.
        self._open: dict[int, ProducerState] = {}
        self._verifications: dict[int, Verification] = {}
        listed = list(states)
        for state in listed:
            if state.txn_first_offset < 0:
                self._keep_idle(state)
        for state in sorted(listed, key=lambda one: one.txn_first_offset):
            if state.txn_first_offset >= 0:
                self._open[state.producer_id] = state

    def __len__(self) -> int:
        return len(self._idle) + len(self._open)

    def all(self) -> list[ProducerState]:
        """Return all producers. Another thread may append a batch meanwhile."""
        # Each list is made in one step of the interpreter.
        return [*list(self._idle.values()), *list(self._open.values())]

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins; None without one."""
        for state in self._open.values():
            return state.txn_first_offset
        return None

    def keep_verifications_of(self, former: ProducerStates) -> None:
        """Stand for the partition in the place of ``former``, whose log is read again. Requests
        that ask the coordinator meanwhile append here, also those that ask after this.
        """
        self._verifications = former._verifications

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers without a transaction that were silent for so long."""
        for state in list(self._idle.values()):
            if now_ms - state.timestamp >= expiration_ms:
                del self._idle[state.producer_id]

    # --- before an append
    # ---------------------------------------------------------------------------------------------

    def begin_verification(
        self, batch: BatchHeader, *, bumps_epoch: bool = False
    ) -> Verification | None:
        """Return what an append of this transactional batch needs when the coordinator has agreed;
        None if the transaction is open here, so that the coordinator need not be asked.
        ``bumps_epoch``: the producer's client has transaction.version 2.
        """
        producer_id = batch.producer_id
        if self._is_open(batch):
            return None
        found = self._verifications.get(producer_id)
        if found is None:
            # The oldest goes: its producer asks again.
            if len(self._verifications) >= PRODUCERS_MAX:
                del self._verifications[next(iter(self._verifications))]
            found = Verification(batch.producer_epoch, batch.base_sequence, bumps_epoch=bumps_epoch)
            self._verifications[producer_id] = found
        if batch.producer_epoch > found.epoch:
            found.epoch, found.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == found.epoch:
            found.lowest_sequence = min(found.lowest_sequence, batch.base_sequence)
        return found

    def check(
        self, batch: BatchHeader, verification: Verification | None = None
    ) -> BatchSeen | None:
        """Return the batch that ``batch`` repeats, None if it is new. Raises BatchRefused if the
        producer was replaced, a batch before it is missing, or its transaction is not known.

        A batch without sequences is one of a coordinator on this node, which has checked that
        itself.
        """
        producer_id = batch.producer_id
        if producer_id < 0:
            return None
        state = self._open.get(producer_id) or self._idle.get(producer_id)
        is_of_client = batch.base_sequence >= 0
        if is_of_client and state is not None and state.epoch == batch.producer_epoch:
            for seen in state.batches:
                if (seen.first_sequence, seen.last_sequence) == (
                    batch.base_sequence,
                    batch.last_sequence,
                ):
                    return seen
        if state is not None:
            _check_epoch(batch, state)
        if batch.is_transactional:
            self._check_transaction(batch, verification, is_of_client=is_of_client)
        if is_of_client:
            self._check_sequence(batch, state)
        if state is not None and state.txn_first_offset >= 0 and not batch.is_transactional:
            raise BatchRefused(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id}",
            )
        return None

    def _is_open(self, batch: BatchHeader) -> bool:
        """Whether the transaction of the batch is open here. One with a later epoch belongs to the
        next transaction, which may begin before the marker of this one is written
        (``UnifiedLog.hasOngoingTransaction``).
        """
        state = self._open.get(batch.producer_id)
        return state is not None and state.epoch == batch.producer_epoch

    def _check_transaction(
        self, batch: BatchHeader, verification: Verification | None, *, is_of_client: bool
    ) -> None:
        if self._is_open(batch):
            return
        known = self._verifications.get(batch.producer_id)
        if is_of_client and (known is None or known is not verification):
            raise BatchRefused(
                ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction"
            )
        if len(self._open) >= PRODUCERS_MAX:
            raise BatchRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{PRODUCERS_MAX} transactions are open in the partition",
            )

    def _check_sequence(self, batch: BatchHeader, state: ProducerState | None) -> None:
        known = self._verifications.get(batch.producer_id)
        has_batches = state is not None and bool(state.batches)
        if known is not None and known.bumps_epoch and batch.base_sequence and not has_batches:
            _refuse_order(batch, "a transaction with an epoch of its own begins with 0")
        # That of an older epoch is of a late batch, and says nothing of this one.
        if known is not None and known.epoch != batch.producer_epoch:
            known = None
        if known is not None and batch.base_sequence > known.lowest_sequence:
            _refuse_order(batch, f"{known.lowest_sequence} was asked for first")
        # Without a state any sequence is taken: it may have gone with old segments (KIP-360).
        if state is None:
            return
        if batch.producer_epoch != state.epoch:
            if batch.base_sequence != 0:
                _refuse_order(batch, "a new epoch begins with sequence 0")
            return
        last = state.last_sequence
        if batch.base_sequence != (0 if last == _INT32_MAX else last + 1):
            _refuse_order(batch, f"{last} was the last sequence")

    def check_marker(self, batch: BatchHeader, marker: Marker, transaction_version: int) -> None:
        """Raise BatchRefused if the marker is one of an older producer or of a coordinator that was
        replaced.
        """
        state = self._open.get(batch.producer_id) or self._idle.get(batch.producer_id)
        if state is None:
            return
        epoch, is_bumped = batch.producer_epoch, transaction_version >= _EPOCH_BUMPED
        # A marker may be written twice: the coordinator asks again if it heard nothing.
        is_again = epoch == state.epoch and (state.txn_first_offset < 0 or epoch == _INT16_MAX)
        if not (is_bumped and is_again) and epoch - is_bumped < state.epoch:
            raise BatchRefused(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {epoch}, and the last seen epoch is "
                f"{state.epoch}",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise BatchRefused(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {batch.producer_id}: "
                f"{marker.coordinator_epoch} (zombie), {state.coordinator_epoch} (current)",
            )

    # --- after an append
    # ---------------------------------------------------------------------------------------------

    def append(self, batch: BatchHeader, marker: Marker | None = None) -> CompletedTxn | None:
        """Note a batch of the log; return the transaction that it ended. ``marker`` is the record
        of a control batch.
        """
        producer_id = batch.producer_id
        if producer_id < 0 or (batch.is_control and marker is None):
            return None
        # Removed first: the producer moves behind all that were silent since.
        state = self._open.get(producer_id) or self._idle.pop(producer_id, None)
        if state is None:
            state = ProducerState(producer_id, batch.producer_epoch)
        elif state.epoch != batch.producer_epoch:
            state.epoch = batch.producer_epoch
            state.batches.clear()
        state.timestamp = batch.max_timestamp
        known = self._verifications.get(producer_id) if batch.is_transactional else None
        if known is not None and not known.outlives(batch):
            del self._verifications[producer_id]
        if marker is not None:
            return self._end(state, batch, marker)
        state.batches.append(
            BatchSeen(
                batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset
            )
        )
        if state.txn_first_offset >= 0:
            return None
        if batch.is_transactional:
            state.txn_first_offset = batch.base_offset
            self._open[producer_id] = state
        else:
            self._keep_idle(state)
        return None

    def _end(self, state: ProducerState, batch: BatchHeader, marker: Marker) -> CompletedTxn | None:
        first = state.txn_first_offset
        state.coordinator_epoch, state.txn_first_offset = marker.coordinator_epoch, -1
        self._open.pop(state.producer_id, None)
        self._keep_idle(state)
        # A marker without a transaction changes nothing for readers.
        if first < 0:
            return None
        unstable = self.first_unstable_offset
        return CompletedTxn(
            state.producer_id,
            first,
            batch.base_offset,
            batch.base_offset + 1 if unstable is None else unstable,
            not marker.is_commit,
        )

    def _keep_idle(self, state: ProducerState) -> None:
        if len(self._idle) >= PRODUCERS_MAX:
            del self._idle[next(iter(self._idle))]
        self._idle[state.producer_id] = state


def _check_epoch(batch: BatchHeader, state: ProducerState) -> None:
    if batch.producer_epoch < state.epoch:
        raise BatchRefused(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, which is "
            f"smaller than the last seen epoch {state.epoch}",
        )


def _refuse_order(batch: BatchHeader, why: str) -> NoReturn:
    raise BatchRefused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"Out of order sequence number for producer {batch.producer_id}: the batch begins with "
        f"{batch.base_sequence}, and {why}",
    )
