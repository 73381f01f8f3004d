"""Carries out what a fetcher asks of the log of a partition that another broker leads: appends the
leader's batches as they are, cuts the log back, begins it anew.

Batches keep offsets and epochs. They are written on the event loop, to the page cache; an append
that begins a segment, waits for the disk (``flush.messages``) or moves the log start, and a cut of
the log, is a job for a thread, and so is every append while the disk is slow. Source:
``Partition.appendRecordsToFollower``, ``UnifiedLog.appendAsFollower``,
``ReplicaFetcherThread.processPartitionData``.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.broker.produce.marker import read_marker
from gateway.broker.replica.followed import Append, CutTo, Position, StartAt, Truncate
from gateway.broker.replica.truncation import begins_anew, truncation_target
from gateway.log.files.errors import LogError
from gateway.log.partition.roll_policy import RollPolicy, rolls_by_size_and_age
from gateway.log.segments.batch_check import Batch, Checked, Tail, check_batches
from gateway.sources.leader_appends import SLOW_S
from gateway.sources.log_cut import cut, restart
from gateway.sources.partition_retention import start_at
from kwire.errors import DecodeError
from kwire.records.header import read_header

if TYPE_CHECKING:
    from gateway.log.partition.unified_log import UnifiedLog
    from gateway.sources.partition_jobs import PartitionJobs
    from gateway.sources.stored_log import StoredLog

_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_ID_AT: Final = 43
_OFFSET_MAX: Final = (1 << 63) - 1


class NotReplicated(NamedTuple):
    """Why a step was not carried out; the log is as before, or is opened again."""

    reason: str


Change = Append | Truncate | CutTo | StartAt
Outcome = Position | NotReplicated


class FollowerAppends:
    """The steps of ``stored``. :attr:`epoch` is the leader epoch that this node follows in, None
    while it does not.
    """

    def __init__(
        self,
        stored: StoredLog,
        jobs: PartitionJobs,
        clock: Callable[[], float],
        committed: Callable[[], int],
        publish: Callable[[int], None],
    ) -> None:
        """``clock`` is in s. ``committed`` returns the high watermark, in any thread. ``publish``
        shows readers what the log holds, committed up to the leader's high watermark that it gets;
        it is called on the event loop.
        """
        self.epoch: int | None = None
        self._stored = stored
        self._jobs = jobs
        self._clock = clock
        self._committed = committed
        self._publish = publish
        self._is_slow = False

    @property
    def position(self) -> Position | None:
        """Where the log is, None while it is not open."""
        log = self._stored.writable
        return None if log is None else position_of(log)

    def take(self, step: Change, on_done: Callable[[Outcome], None]) -> None:
        """Carry out ``step``, now or as a job, and call ``on_done`` once on the event loop."""
        runs = self._runs_to_write_now(step) if isinstance(step, Append) else None
        if runs is None:
            self._jobs.submit(partial(self._as_job, step, on_done))
            return
        assert isinstance(step, Append)
        log = self._stored.log
        assert log is not None, "its runs are known"
        self._done(step, on_done, self._guarded(lambda: self._write(log, step, runs)))

    def _runs_to_write_now(self, step: Append) -> list[list[Batch]] | None:
        """Return the batches to append, None where a thread has to do it."""
        log = self._stored.writable
        if (
            log is None
            or not self._jobs.are_done
            or self._is_slow
            or step.followed.leader_epoch != self.epoch
            or step.log_start_offset > log.start_offset
        ):
            return None
        if not step.records:
            return [[]]
        checked = _check(log, step)
        # The job finds once more what is wrong, and says so.
        if checked.fault is not None or not checked.batches:
            return None
        messages = checked.batches[-1].last_offset + 1 - log.end_offset
        if self._stored.is_due_to_flush(messages):
            return None
        runs = _runs(log, checked.batches, rolls_by_size_and_age(self._stored.settings()))
        return runs if len(runs) == 1 else None

    def _as_job(self, step: Change, on_done: Callable[[Outcome], None]) -> Callable[[], None]:
        return partial(self._done, step, on_done, self._guarded(lambda: self._carry_out(step)))

    def _done(self, step: Change, on_done: Callable[[Outcome], None], outcome: Outcome) -> None:
        if isinstance(outcome, Position) and step.followed.leader_epoch == self.epoch:
            self._publish(step.high_watermark if isinstance(step, Append) else 0)
        on_done(outcome)

    def _guarded(self, work: Callable[[], Outcome]) -> Outcome:
        began = self._clock()
        try:
            return work()
        except DecodeError as error:
            return NotReplicated(f"the leader's records cannot be appended: {error}")
        except LogError as error:
            self._stored.failed(error)
            return NotReplicated(str(error))
        finally:
            self._is_slow = self._clock() - began > SLOW_S

    # --- in the thread
    # ---------------------------------------------------------------------------------------------

    def _carry_out(self, step: Change) -> Outcome:
        log = self._stored.writable
        if log is None:
            return NotReplicated("the log is not open")
        if step.followed.leader_epoch != self.epoch:
            return NotReplicated("the leader has changed")
        match step:
            case Append():
                return self._append(log, step)
            case Truncate():
                target = truncation_target(
                    log.epochs, log.end_offset, step.leaders_epoch, step.leaders_end
                )
                if not cut(self._stored, log, target):
                    return NotReplicated(
                        f"the leader's epoch {step.leaders_epoch} ends at {step.leaders_end}, and "
                        f"nothing of the log from {log.start_offset} to {log.end_offset} is behind "
                        "that"
                    )
            case CutTo():
                cut(self._stored, log, step.offset)
            case StartAt():
                restart(self._stored, log, step.offset)
        return position_of(log)

    def _append(self, log: UnifiedLog, step: Append) -> Outcome:
        runs: list[list[Batch]] = [[]]
        start = step.log_start_offset
        position, epoch = position_of(log), step.followed.leader_epoch
        if not step.is_compared and begins_anew(position, self._committed(), epoch, start):
            restart(self._stored, log, start)
        if step.records:
            checked = _check(log, step)
            first = next(iter(check_batches(step.records, _ANYWHERE).batches), None)
            if first is not None and _holds_start(log, first):
                # Records in the first batch were deleted at the leader, whose log starts inside it.
                restart(self._stored, log, first.base_offset)
                checked = _check(log, step)
            if checked.fault is not None:
                raise checked.fault
            if not checked.batches:
                return NotReplicated(
                    f"{len(step.records)} bytes of the leader hold no whole batch of an epoch up "
                    f"to {step.followed.leader_epoch}"
                )
            runs = _runs(log, checked.batches, rolls_by_size_and_age(self._stored.settings()))
        self._write(log, step, runs)
        if self._stored.is_due_to_flush(0):
            log.flush()
        committed = min(step.high_watermark, log.end_offset)
        start_at(self._stored, log, min(start, committed))
        return position_of(log)

    def _write(self, log: UnifiedLog, step: Append, runs: Sequence[Sequence[Batch]]) -> Position:
        """Append runs of batches; each but the first begins a segment."""
        stored, view = self._stored, memoryview(step.records or b"")
        for number, run in enumerate(runs):
            if number:
                stored.roll()
            if run:
                log.append_checked(view, run)
                self._note_producers(log, view, run)
        if step.records:
            stored.show()
        return position_of(log)

    def _note_producers(self, log: UnifiedLog, view: memoryview, run: Sequence[Batch]) -> None:
        producers = self._stored.producers
        for batch in run:
            if _PRODUCER_ID.unpack_from(view, batch.position + _PRODUCER_ID_AT)[0] >= 0:
                header = read_header(view, batch.position)
                if header.is_control:
                    # The index of transactions is a second file.
                    with log.guard.several_steps():
                        producers.append(header, read_marker(header, view))
                else:
                    producers.append(header)


_ANYWHERE: Final = Tail(-1, -1, gaps=True)


def position_of(log: UnifiedLog) -> Position:
    """Return where a log begins and ends."""
    return Position(log.start_offset, log.end_offset, log.latest_epoch)


def _check(log: UnifiedLog, step: Append) -> Checked:
    """Check the leader's batches; those from one of a newer epoch than the leader's on do not
    count: the Fetch that gets them will have compared the logs in that epoch.
    """
    checked = check_batches(
        step.records, Tail(log.end_offset, log.last_epoch, gaps=True), crc_checked=False
    )
    epoch, batches = step.followed.leader_epoch, checked.batches
    if batches and batches[-1].last_offset >= _OFFSET_MAX:
        reason = f"the batch at offset {batches[-1].base_offset} leaves no offset behind it"
        fault = DecodeError(
            reason, path="BaseOffset", offset=batches[-1].position, rule="base-offset"
        )
        return checked._replace(fault=fault)
    if not batches or batches[-1].epoch <= epoch:  # epochs never decrease
        return checked
    known = list(itertools.takewhile(lambda batch: batch.epoch <= epoch, batches))
    return Checked(known, checked.tail, None)


def _holds_start(log: UnifiedLog, first: Batch) -> bool:
    """Whether the log is empty, and would begin inside of the batch ``first``."""
    start = log.start_offset
    return start == log.end_offset and first.base_offset < start <= first.last_offset


def _runs(log: UnifiedLog, batches: Sequence[Batch], rolls: RollPolicy) -> list[list[Batch]]:
    """Cut the batches where a segment begins; the first run goes into the active one."""
    runs: list[list[Batch]] = [[]]
    size, first_timestamp = log.active_size, log.first_timestamp
    for batch in batches:
        if size and rolls(batch, size, first_timestamp):
            runs.append([])
            size, first_timestamp = 0, None
        runs[-1].append(batch)
        size += batch.size
        first_timestamp = batch.max_timestamp if first_timestamp is None else first_timestamp
    return runs
