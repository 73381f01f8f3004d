"""The log as the core of the quorum sees it: where it begins and ends, which epochs it holds, how much of it is durable.

It changes the moment an effect is given out; the disk follows. Knows no records, only their offsets and epochs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.quorum.raft.settings import Stored
from gateway.quorum.requests import Position
from gateway.snapshot_id import SnapshotId

#: The snapshot of formatting (``Snapshots.BOOTSTRAP_SNAPSHOT_ID``): never given to anybody.
BOOTSTRAP: Final = SnapshotId(0, 0)


class Verdict(NamedTuple):
    """What a leader says to a fetch position (``ValidOffsetAndEpoch``): valid when neither is given."""

    snapshot: SnapshotId | None = None
    diverging: Position | None = None


VALID: Final = Verdict()


class LogView:
    """Offsets and epochs of one log (``ReplicatedLog``). ``flushed``: everything below is durable."""

    __slots__ = ("_epochs", "_start_epoch", "_unsynced", "end_offset", "flushed", "snapshots", "start_offset")

    def __init__(self, stored: Stored) -> None:
        assert 0 <= stored.start_offset <= stored.end_offset, "a log ends before it begins"
        self.start_offset = stored.start_offset
        self.end_offset = stored.end_offset
        self.flushed = stored.end_offset  #: what a node finds at its birth is on its disk
        self.snapshots = [id for id in stored.snapshots if id != BOOTSTRAP]
        self._start_epoch = stored.start_epoch
        self._epochs = list(stored.epochs)
        self._unsynced: deque[tuple[int, int]] = deque()  # (token of an append, log end after it)

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, its first offset), ascending."""
        return tuple(self._epochs)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, else of the snapshot at which the log begins, else 0."""
        return self._epochs[-1][0] if self._epochs else self._start_epoch

    @property
    def end(self) -> Position:
        """Where the log ends: the offset to come, and the epoch before it."""
        return Position(self.end_offset, self.last_epoch)

    @property
    def latest_snapshot(self) -> tuple[int, int] | None:
        """The newest complete snapshot, None without one."""
        return self.snapshots[-1] if self.snapshots else None

    def append(self, token: int, end_offset: int, batches: Iterable[tuple[int, int]]) -> None:
        """The append with ``token`` makes the log end at ``end_offset``; ``batches``: (epoch, base offset) of each."""
        assert end_offset > self.end_offset, "an append of nothing"
        expected = self.end_offset
        for epoch, base_offset in batches:
            assert expected <= base_offset < end_offset, "a batch that is not appended at the log's end"  # KAFKA-12331
            assert epoch >= self.last_epoch, "epochs of a log never fall"
            if not self._epochs or epoch > self._epochs[-1][0]:
                self._epochs.append((epoch, base_offset))
        self.end_offset = end_offset
        self._unsynced.append((token, end_offset))

    def truncate(self, offset: int) -> None:
        """Everything from ``offset`` on is gone. What was on its way to the disk counts only up to there."""
        assert self.start_offset <= offset < self.end_offset, "a truncation outside of the log"
        self.end_offset = offset
        self.flushed = min(self.flushed, offset)
        self._unsynced = deque((token, min(end, offset)) for token, end in self._unsynced)
        while self._epochs and self._epochs[-1][1] >= offset:
            self._epochs.pop()

    def synced(self, token: int) -> bool:
        """Every effect on the disk up to ``token`` is durable. Did that make more of the log durable?"""
        before = self.flushed
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= token:
            self.flushed = max(self.flushed, unsynced.popleft()[1])
        assert self.flushed <= self.end_offset, "more is durable than was appended"
        return self.flushed > before

    def install(self, id: SnapshotId) -> None:
        """The log begins anew, empty and durable, at the end of a snapshot (``truncateToLatestSnapshot``)."""
        self.start_offset = self.end_offset = self.flushed = id.end_offset
        self._start_epoch = id.epoch
        self._epochs.clear()
        self._unsynced.clear()
        self.snapshots = [id]

    def add_snapshot(self, id: SnapshotId) -> None:
        """A snapshot of the log is complete."""
        assert self.start_offset <= id.end_offset <= self.end_offset, "a snapshot of records that are not there"
        if id != BOOTSTRAP and id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, id])

    def clean(self, start_offset: int, snapshots: Iterable[SnapshotId]) -> None:
        """Records below ``start_offset`` and all other snapshots were deleted."""
        assert self.start_offset <= start_offset <= self.end_offset, "cleaned beyond the log"
        self.snapshots = [id for id in snapshots if id != BOOTSTRAP]
        before = bisect_right(self._epochs, start_offset - 1, key=lambda entry: entry[1])
        if before:
            self._start_epoch = self._epochs[before - 1][0]
        at = bisect_right(self._epochs, start_offset, key=lambda entry: entry[1])
        if at:
            self._epochs[:at] = [(self._epochs[at - 1][0], start_offset)] if start_offset < self.end_offset else []
        self.start_offset = start_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch not above ``epoch``, and where it ends (``LeaderEpochFileCache.endOffsetFor``).

        (-1, -1) for one newer than all, and in a log without records; for one older than all: itself, with the log's first
        offset.
        """
        entries = self._epochs
        if epoch < 0 or not entries or epoch > entries[-1][0]:
            return -1, -1
        at = bisect_right(entries, epoch, key=lambda entry: entry[0])
        if at == 0:
            return epoch, entries[0][1]
        return entries[at - 1][0], entries[at][1] if at < len(entries) else self.end_offset

    def validate(self, offset: int, epoch: int) -> Verdict:
        """What to say to a replica whose log ends at ``offset`` with ``epoch`` (``validateOffsetAndEpoch``, KIP-595, 630).

        Offset 0 is sent to the newest snapshot even where the log still begins there: that is always the shorter way.
        """
        snapshots = self.snapshots
        if snapshots:
            if offset == 0:
                return Verdict(snapshot=snapshots[-1])
            earliest = snapshots[0]
            below = offset < self.start_offset
            other = offset == self.start_offset > 0 and epoch != earliest.epoch
            if below or other or epoch < earliest.epoch:
                return Verdict(snapshot=snapshots[-1])
        elif offset == epoch == 0:
            return VALID
        agreed, end = self.end_offset_for_epoch(epoch)
        if agreed < 0:  # newer than all epochs, or no records at all
            agreed, end = self.last_epoch, self.end_offset
        elif snapshots and (agreed, end) == (epoch, snapshots[0].end_offset) and epoch < self._epochs[0][0]:
            agreed = snapshots[0].epoch  # older than all that is left: the snapshot's own epoch is what we know of it
        if agreed != epoch or end < offset:
            return Verdict(diverging=Position(end, agreed))
        return VALID
