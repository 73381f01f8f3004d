"""Reads the leader's log below its newest snapshot, where an observer wants the whole history.

A leader diverts a replica to its newest snapshot when the replica fetches from offset 0, or with an
epoch older than that of the leader's oldest snapshot, even while the log goes back further
(``ReplicatedLog.validateOffsetAndEpoch``, KIP-630). It gives the log itself to a replica that names
the snapshot's epoch. This module chooses that fetch position and remembers which snapshots it was
tried below; ``following`` appends what comes. Kafka has no counterpart: its replicas want the state
alone.
"""

from __future__ import annotations

from gateway.quorum.partition import Position
from gateway.quorum.replicated_log import ReplicatedLog
from kwire.metadata_log.snapshot_id import SnapshotId


class FullHistoryFetch:
    """``below``: the snapshot below which the next Fetch reads, None for an ordinary Fetch.

    ``failed_below``: a snapshot below which the leader gave nothing that follows the local log.
    ``succeeded_below``: one below which it did.
    """

    __slots__ = ("below", "failed_below", "succeeded_below")

    def __init__(self) -> None:
        self.below: SnapshotId | None = None
        self.failed_below: SnapshotId | None = None
        self.succeeded_below: SnapshotId | None = None

    def position(self, log: ReplicatedLog) -> Position | None:
        """Return where to fetch from below the snapshot; None for an ordinary Fetch."""
        if self.below is None:
            return None
        # A Fetch from offset 0 is always diverted. A Fetch from offset 1 returns the batch that
        # holds this offset, which is the first one if it has two records.
        return Position(max(1, log.end_offset), self.below.epoch)

    def can_continue(self, instead_of: SnapshotId, log_start_offset: int, committed: int) -> bool:
        """Return whether the leader's log still holds the records from ``committed`` on, and
        reading below ``instead_of`` has not failed.
        """
        # After a failure the leader would divert the same Fetch again, for ever.
        return 0 <= log_start_offset <= committed and instead_of != self.failed_below

    def read(self, below: SnapshotId, end: int, leader_high_watermark: int) -> None:
        """Note that batches up to ``end`` came; decide whether to read on below the snapshot."""
        # Such a Fetch does not name the epoch of the last local record, so the leader cannot notice
        # a divergence. Committed records cannot diverge, so the reading ends where they do.
        self.succeeded_below = below
        self.below = below if end < below.end_offset and leader_high_watermark >= end else None
