"""Tracks the log for the core: start, end, epochs, snapshots, and how much of it is durable.

It changes when an effect is emitted, before the disk does. It knows no records, only their offsets
and epochs. Follows Kafka's ``ReplicatedLog`` (``RaftLog``) and ``KafkaMetadataLog``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from gateway.base.leader_epochs import LeaderEpochs
from gateway.quorum.partition import Position
from gateway.quorum.settings import Stored
from kwire.metadata_log.snapshot_id import SnapshotId

#: The snapshot from formatting (``Snapshots.BOOTSTRAP_SNAPSHOT_ID``), which is never served.
BOOTSTRAP: Final = SnapshotId(0, 0)


class ValidOffsetAndEpoch(NamedTuple):
    """A leader's verdict on a fetch position; valid if neither field is set."""

    snapshot: SnapshotId | None = None
    diverging: Position | None = None


VALID: Final = ValidOffsetAndEpoch()


class ReplicatedLog:
    """Offsets and epochs of one log. Everything below ``flushed`` is durable."""

    __slots__ = (
        "_epochs",
        "_start_epoch",
        "_unsynced",
        "end_offset",
        "flushed",
        "snapshots",
        "start_offset",
    )

    def __init__(self, stored: Stored) -> None:
        assert 0 <= stored.start_offset <= stored.end_offset, "a log ends before it begins"
        self.start_offset = stored.start_offset
        self.end_offset = stored.end_offset
        self.flushed = stored.end_offset  # opening the log has synced it
        self.snapshots = [id for id in stored.snapshots if id != BOOTSTRAP]
        self._start_epoch = stored.start_epoch
        self._epochs = LeaderEpochs(stored.epochs)
        self._unsynced: deque[tuple[int, int]] = deque()  # (token of an append, log end after it)

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """(epoch, its first offset), ascending."""
        return self._epochs.entries

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, else of the snapshot at which the log begins, else 0."""
        latest = self._epochs.latest
        return self._start_epoch if latest is None else latest

    @property
    def end(self) -> Position:
        """The next offset, and the epoch of the record before it."""
        return Position(self.end_offset, self.last_epoch)

    @property
    def latest_snapshot(self) -> tuple[int, int] | None:
        """The newest complete snapshot, None without one."""
        return self.snapshots[-1] if self.snapshots else None

    def append(self, token: int, end_offset: int, batches: Iterable[tuple[int, int]]) -> None:
        """Extend the log to ``end_offset``; it is durable with ``token``. ``batches``: (epoch, base
        offset) of each.
        """
        assert end_offset > self.end_offset, "an append of nothing"
        expected = self.end_offset
        for epoch, base_offset in batches:
            # KAFKA-12331: a LEADER_CHANGE batch had base offset 0 wherever the log ended.
            assert expected <= base_offset < end_offset, "a batch that is not at the log's end"
            # ``response_checks.given_batches`` refuses such a batch from a leader.
            assert epoch >= self.last_epoch, "the epochs of a log never decrease"
            self._epochs.assign(epoch, base_offset)
        self.end_offset = end_offset
        self._unsynced.append((token, end_offset))

    def truncate_to(self, offset: int) -> None:
        """Drop everything from ``offset`` on."""
        assert self.start_offset <= offset < self.end_offset, "a truncation outside of the log"
        # Seeded bugs in tests/sim: ``truncation_forgets_what_is_on_disk``,
        # ``truncation_keeps_epochs``.
        self.end_offset = offset
        # The disk performs effects in order, so an append that is still pending makes the log
        # durable only up to here. Other records may stand beyond it by then.
        self.flushed = min(self.flushed, offset)
        self._unsynced = deque((token, min(end, offset)) for token, end in self._unsynced)
        self._epochs.truncate_from_end(offset)

    def synced(self, token: int) -> bool:
        """Note that every effect up to ``token`` is durable; return whether more of the log is."""
        before = self.flushed
        unsynced = self._unsynced
        # One sync of the disk covers every append before it, so that one token may settle many.
        while unsynced and unsynced[0][0] <= token:
            self.flushed = max(self.flushed, unsynced.popleft()[1])
        assert self.flushed <= self.end_offset, "more is durable than was appended"
        return self.flushed > before

    def truncate_to_snapshot(self, id: SnapshotId) -> None:
        """Restart the log, empty and durable, at the end of a snapshot
        (``truncateToLatestSnapshot``).
        """
        assert id.end_offset >= self.start_offset, "a snapshot from before the log start"
        # The end offset of a snapshot is exclusive: the next record has this offset (KAFKA-14618).
        # Seeded bugs in tests/sim: ``a_snapshot_ends_one_record_early``,
        # ``a_snapshot_has_no_epoch``.
        self.start_offset = self.end_offset = self.flushed = id.end_offset
        self._start_epoch = id.epoch
        self._epochs.clear()
        self._unsynced.clear()
        self.snapshots = [id]

    def add_snapshot(self, id: SnapshotId) -> None:
        """Add a complete snapshot of this log."""
        assert self.start_offset <= id.end_offset <= self.end_offset, (
            "a snapshot of records that are not there"
        )
        if id != BOOTSTRAP and id not in self.snapshots:
            self.snapshots = sorted([*self.snapshots, id])

    def clean(self, start_offset: int, snapshots: Iterable[SnapshotId]) -> None:
        """Note that records below ``start_offset`` and all but ``snapshots`` were deleted."""
        assert self.start_offset <= start_offset <= self.end_offset, "cleaned beyond the log"
        self.snapshots = [id for id in snapshots if id != BOOTSTRAP]
        before = self._epochs.epoch_before(start_offset)
        # Without a batch before it the log is cut at a snapshot that replaced the log, whose epoch
        # it has.
        if before is not None:
            self._start_epoch = before
        if start_offset < self.end_offset:
            self._epochs.truncate_from_start(start_offset)
        else:
            self._epochs.clear()
        self.start_offset = start_offset

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``gateway.base.leader_epochs.end_offset_for``."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def validate(self, offset: int, epoch: int) -> ValidOffsetAndEpoch:
        """Validate the fetch position of a replica whose log ends at ``offset`` with ``epoch``
        (``validateOffsetAndEpoch``, KIP-595, 630).
        """
        snapshots = self.snapshots
        if snapshots:
            # Even if the log still begins at 0: the snapshot is always the shorter way. Kafka does
            # so too, in ``tryCompleteFetchRequest``. Real 4.3 gives the log to a replica at offset
            # 1.
            if offset == 0:
                return ValidOffsetAndEpoch(snapshot=snapshots[-1])
            earliest = snapshots[0]
            # Below the oldest snapshot there are no epochs left to compare, so a replica with an
            # older epoch gets the newest snapshot too.
            below = offset < self.start_offset
            other = offset == self.start_offset > 0 and epoch != earliest.epoch
            if below or other or epoch < earliest.epoch:
                return ValidOffsetAndEpoch(snapshot=snapshots[-1])
        elif offset == epoch == 0:
            return VALID
        agreed, end = self.end_offset_for_epoch(epoch)
        # An epoch newer than all known ones, or a log without records: the replica has to go back
        # to the end of this log.
        if agreed < 0:
            # Kafka's ``endOffsetForEpoch`` gives its log end and last epoch in this case, too.
            agreed, end = self.last_epoch, self.end_offset
        elif (
            snapshots
            and (agreed, end) == (epoch, snapshots[0].end_offset)
            and epoch < self._epochs.entries[0][0]
        ):
            # All records of that epoch were deleted. The snapshot at the log start still has it.
            agreed = snapshots[0].epoch
        # A replica that ends exactly at the end of the epoch has everything of it, and its next
        # record is the first of a later epoch. Seeded bugs in tests/sim:
        # ``offsets_are_compared_and_not_epochs``, ``fetch_positions_are_not_validated``,
        # ``diverging_epoch_as_the_text_has_it``.
        if agreed != epoch or end < offset:
            return ValidOffsetAndEpoch(diverging=Position(end, agreed))
        return VALID
