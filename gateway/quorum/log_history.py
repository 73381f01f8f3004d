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
from gateway.snapshot_id import SnapshotId


class LogHistory:
    """``below``: the snapshot under which the next Fetch reads, None for an ordinary Fetch.

    ``tried``: a snapshot below which the leader gave nothing that follows the local log. ``found``:
    one below which it did.
    """

    __slots__ = ("below", "found", "tried")

    def __init__(self) -> None:
        self.below: SnapshotId | None = None
        self.tried: SnapshotId | None = None
        self.found: SnapshotId | None = None

    def position(self, log: ReplicatedLog) -> Position | None:
        """Where to fetch from below the snapshot; None for an ordinary Fetch.

        Offset 0 is always diverted: at offset 1 the leader gives the batch that this offset lies
        in, which is the first one.
        """
        if self.below is None:
            return None
        return Position(max(1, log.end_offset), self.below.epoch)

    def may_read(self, instead_of: SnapshotId, log_start_offset: int, committed: int) -> bool:
        """Does the leader's log still hold what follows ``committed``, and was that not tried in
        vain?
        """
        return 0 <= log_start_offset <= committed and instead_of != self.tried

    def read(self, below: SnapshotId, end: int, leader_high_watermark: int) -> None:
        """Batches up to ``end`` came. Go on below the same snapshot while there is more, and all of
        it is committed.

        The epoch that such a Fetch names is not that of the last local record, so the leader cannot
        notice a divergence: committed records alone cannot diverge.
        """
        self.found = below
        self.below = below if end < below.end_offset and leader_high_watermark >= end else None
