"""Bugs in what a partition knows of producers and of their transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from gateway.broker.produce import producer_state
from gateway.broker.produce.producer_snapshot import decode_snapshot
from gateway.broker.produce.producer_state import ProducerState, ProducerStates
from gateway.broker.produce.refusal import BatchRefused
from kwire.protocol import ErrorCode
from tests.patches import patched
from tests.sim.brokers import partition_log
from tests.sim.brokers.partition_log import PartitionLog
from tests.sim.brokers.replica import Replica
from tests.sim.mutant_registry import Mutants

Context = AbstractContextManager[Any]
MUTANTS: Final = Mutants()

_append = ProducerStates.append
_begin_verification = ProducerStates.begin_verification
_check = ProducerStates.check
_check_sequence = ProducerStates._check_sequence


@MUTANTS.register("broker.md 7: a promoted follower without the state of replicated batches")
def followers_know_no_producers() -> Context:
    """A follower does not note the producers of what it appends."""

    def append(self: Replica, entries: Any, high_watermark: int, start: int, **more: Any) -> None:
        with patched(PartitionLog, _fold=lambda self, entry: None):
            of_replica(self, entries, high_watermark, start, **more)

    of_replica = Replica.append_as_follower
    return patched(Replica, append_as_follower=append)


@MUTANTS.register("broker.md 7: producer state dropped when acks=all times out")
def a_timeout_forgets_the_producers() -> Context:
    """When acks=all times out, the producers of the partition are forgotten."""

    def give_up(self: Replica, one: Any) -> None:
        if one in self.waiting:
            self.log.states = ProducerStates()
        of_replica(self, one)

    of_replica = Replica._give_up
    return patched(Replica, _give_up=give_up)


@MUTANTS.register("an obvious mistake")
def a_restart_forgets_the_producers() -> Context:
    """A broker that restarts knows no producers."""

    def load(self: PartitionLog) -> None:
        self.states = ProducerStates()

    return patched(PartitionLog, load_producers=load)


@MUTANTS.register("an obvious mistake")
def a_snapshot_is_all() -> Context:
    """Producers are read from a snapshot, without the batches behind it."""

    def load(self: PartitionLog) -> None:
        known = max(self.snapshots, default=None)
        states = [] if known is None else decode_snapshot(self.snapshots[known])
        self.states = ProducerStates(states)

    return patched(PartitionLog, load_producers=load)


@MUTANTS.register("an obvious mistake")
def truncation_keeps_producers() -> Context:
    """The producers of records that were cut off stay known."""

    def truncate_to(self: PartitionLog, offset: int) -> None:
        with patched(PartitionLog, load_producers=lambda self: None):
            of_log(self, offset)

    of_log = PartitionLog.truncate_to
    return patched(PartitionLog, truncate_to=truncate_to)


@MUTANTS.register("an obvious mistake")
def snapshots_behind_the_end_are_read() -> Context:
    """A truncation leaves snapshots that are behind the end of the log."""

    def truncate_to(self: PartitionLog, offset: int) -> None:
        known = dict(self.snapshots)
        of_log(self, offset)
        self.snapshots = known
        self.load_producers()

    of_log = PartitionLog.truncate_to
    return patched(PartitionLog, truncate_to=truncate_to)


@MUTANTS.register("an obvious mistake")
def duplicates_are_appended() -> Context:
    """A batch that comes again is appended again."""

    def check(self: ProducerStates, batch: Any, verification: Any = None) -> Any:
        try:
            found = _check(self, batch, verification)
        except BatchRefused as refused:
            if refused.error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            found = None
        return None if found is not None else found

    return patched(ProducerStates, check=check)


@MUTANTS.register("KAFKA-5429")
def only_the_newest_batch_is_known() -> Context:
    """A partition remembers one batch of a producer instead of five."""

    def append(self: ProducerStates, batch: Any, marker: Any = None) -> Any:
        found = _append(self, batch, marker)
        state = self._open.get(batch.producer_id) or self._idle.get(batch.producer_id)
        if state is not None:
            state.batches = deque(list(state.batches)[-1:], maxlen=1)
        return found

    return patched(ProducerStates, append=append)


@MUTANTS.register("an obvious mistake")
def sequences_are_not_compared() -> Context:
    """A batch is appended although one before it is missing."""
    return patched(ProducerStates, _check_sequence=lambda self, batch, state: None)


@MUTANTS.register("kwire, before schedule 71699")
@contextmanager
def late_batches_count_in_every_epoch() -> Iterator[None]:
    """The sequence that was asked for first counts in the epochs of other transactions, too."""

    def begin(self: ProducerStates, batch: Any, **more: Any) -> Any:
        known = self._verifications.get(batch.producer_id)
        lowest = batch.base_sequence if known is None else known.lowest_sequence
        found = _begin_verification(self, batch, **more)
        if found is not None:
            found.lowest_sequence = min(lowest, batch.base_sequence)
        return found

    def check(self: ProducerStates, batch: Any, state: Any) -> None:
        known = self._verifications.get(batch.producer_id)
        if known is not None:
            known.epoch = batch.producer_epoch
        _check_sequence(self, batch, state)

    with patched(ProducerStates, begin_verification=begin, _check_sequence=check):
        yield


@MUTANTS.register("an obvious mistake")
def duplicates_are_found_by_their_first_sequence() -> Context:
    """A batch that comes again is told the offset of the newest one."""

    def check(self: ProducerStates, batch: Any, verification: Any = None) -> Any:
        found = _check(self, batch, verification)
        state = self._open.get(batch.producer_id) or self._idle.get(batch.producer_id)
        return state.batches[-1] if found is not None and state is not None else found

    return patched(ProducerStates, check=check)


@MUTANTS.register("an obvious mistake")
def old_epochs_are_taken() -> Context:
    """Batches of an older producer epoch are appended."""

    def check(self: ProducerStates, batch: Any, verification: Any = None) -> Any:
        with (
            patched(producer_state, _check_epoch=lambda batch, state: None),
            patched(ProducerStates, _check_sequence=lambda self, batch, state: None),
        ):
            return _check(self, batch, verification)

    return patched(ProducerStates, check=check)


@MUTANTS.register("KIP-890")
def any_marker_is_taken() -> Context:
    """A marker that comes again ends the transaction after the one that it was written for."""
    return patched(ProducerStates, check_marker=lambda self, batch, marker, version: None)


@MUTANTS.register("an obvious mistake")
def markers_end_nothing() -> Context:
    """A transaction stays open behind its marker."""
    end = ProducerStates._end

    def keep(self: ProducerStates, state: ProducerState, batch: Any, marker: Any) -> Any:
        first = state.txn_first_offset
        found = end(self, state, batch, marker)
        if first >= 0:
            self._idle.pop(state.producer_id, None)
            state.txn_first_offset = first
            self._open[state.producer_id] = state
        return found

    return patched(ProducerStates, _end=keep)


@MUTANTS.register("an obvious mistake")
def aborted_transactions_are_not_noted() -> Context:
    """Readers of committed records are not told of aborted transactions."""

    def append(self: ProducerStates, batch: Any, marker: Any = None) -> Any:
        _append(self, batch, marker)

    return patched(ProducerStates, append=append)


@MUTANTS.register("an obvious mistake")
def every_marker_commits() -> Context:
    """An abort marker counts as one that commits."""

    def append(self: ProducerStates, batch: Any, marker: Any = None) -> Any:
        return _append(self, batch, marker and marker._replace(is_commit=True))

    return patched(ProducerStates, append=append)


@MUTANTS.register("broker.md 7: the last stable offset")
def stable_offset_ignores_transactions() -> Context:
    """Readers of committed records get those of open transactions."""
    return patched(PartitionLog, stable_end=lambda self, high_watermark: high_watermark)


@MUTANTS.register("an obvious mistake")
def stable_offset_of_the_newest_transaction() -> Context:
    """The last stable offset is where the newest open transaction begins."""

    def newest(self: ProducerStates) -> int | None:
        offsets = [state.txn_first_offset for state in self._open.values()]
        return max(offsets, default=None)

    return patched(ProducerStates, first_unstable_offset=property(newest))


@MUTANTS.register("an obvious mistake")
def a_restart_forgets_open_transactions() -> Context:
    """A snapshot of the producers does not tell which transactions are open."""

    def closed(data: bytes) -> list[ProducerState]:
        states = decode_snapshot(data)
        for state in states:
            state.txn_first_offset = -1
        return states

    return patched(partition_log, decode_snapshot=closed)
