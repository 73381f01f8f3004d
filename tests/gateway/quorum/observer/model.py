"""A model of a KRaft quorum that tells the truth: voters with logs, elections, high watermarks,
snapshots, resignations.

It is no raft implementation: its driver causes elections and replication, which happen at once, but
only in ways that raft allows. ``committed`` is what the quorum may never take back; the model
checks itself against it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.base.address import Address
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.quorum.batches import Batch, data_batch, leader_change

CLUSTER_ID = "model-cluster"


@dataclass
class Voter:
    """One voter: its log as batches, its view of the epoch, and what it does in it."""

    id: int
    fetch_versions: range = range(4, 19)
    up: bool = True
    role: str = "follower"  # leader | follower | resigned
    epoch: int = 0
    leader_id: int = -1
    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    start_epoch: int = 0
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    high_watermark: int = -1
    epoch_begin: int = 0  # leaders: base offset of the leader change record
    ends: dict[int, int] = field(
        default_factory=dict
    )  # leaders: log ends of the others, as acknowledged
    reachable: bool = True  # for the observer

    @property
    def address(self) -> Address:
        return Address(f"voter{self.id}", 9090 + self.id)

    @property
    def end(self) -> int:
        return self.batches[-1].next if self.batches else self.start

    @property
    def last_epoch(self) -> int:
        return self.batches[-1].epoch if self.batches else self.start_epoch

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above ``epoch``, its end), as ``KafkaRaftLog.endOffsetForEpoch``."""
        found = (self.start_epoch, self.start)
        for batch in self.batches:
            if batch.epoch > epoch:
                break
            found = (batch.epoch, batch.next)
        return found

    def epoch_before(self, offset: int) -> int:
        """Epoch of the record before a batch boundary."""
        found = self.start_epoch
        for batch in self.batches:
            if batch.base >= offset:
                break
            found = batch.epoch
        return found


class Quorum:
    """Voters 1 to n, and what they committed. Every method leaves the model in a state that raft
    can be in.
    """

    def __init__(self, size: int, *, dynamic: bool = False) -> None:
        self.dynamic = dynamic
        self.voters = {id: Voter(id) for id in range(1, size + 1)}
        self.committed: list[Batch] = []
        self.leaders: dict[int, int] = {}  # epoch -> the one who leads it
        self._value = 0

    @property
    def committed_end(self) -> int:
        return self.committed[-1].next if self.committed else 0

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    def committed_epoch_before(self, offset: int) -> int | None:
        """Epoch of the committed record before ``offset``, None if that is no batch boundary of the
        committed log.
        """
        return next((batch.epoch for batch in self.committed if batch.next == offset), None)

    def elect(self, electors: list[int], informed: list[int]) -> int | None:
        """The first elector whose log is as good as all others' leads the next epoch. ``informed``
        of them know at once.
        """
        group = [self.voters[id] for id in electors if self.voters[id].up]
        if len(group) < self.majority:
            return None
        best = max((voter.last_epoch, voter.end) for voter in group)
        leader = next(voter for voter in group if (voter.last_epoch, voter.end) == best)
        epoch = 1 + max(voter.epoch for voter in group)
        assert epoch not in self.leaders
        self.leaders[epoch] = leader.id
        for voter in group:
            voter.role, voter.epoch = "follower", epoch
            voter.leader_id = leader.id if voter.id in informed else -1
        leader.role, leader.leader_id, leader.high_watermark = "leader", leader.id, -1
        leader.ends, leader.epoch_begin = {}, leader.end
        first = self.dynamic and not leader.end
        leader.batches.append(
            leader_change(leader.end, epoch, leader.id, tuple(self.voters), first)
        )
        self._advance(leader)
        return leader.id

    def append(self, id: int, count: int) -> bool:
        """The leader ``id`` appends a batch, committed or not."""
        leader = self.voters[id]
        if not leader.up or leader.role != "leader":
            return False
        self._value += 1
        leader.batches.append(data_batch(leader.end, count, leader.epoch, self._value))
        self._advance(leader)
        return True

    def replicate(self, id: int, leader_id: int, limit: int) -> bool:
        """Voter ``id`` fetches once from ``leader_id``: truncates, loads a snapshot, or takes up to
        ``limit`` batches.
        """
        follower, leader = self.voters[id], self.voters[leader_id]
        if (
            id == leader_id
            or not (follower.up and leader.up)
            or leader.role != "leader"
            or leader.epoch < follower.epoch
        ):
            return False
        if leader.epoch > follower.epoch or follower.leader_id == -1:
            follower.role, follower.epoch, follower.leader_id = "follower", leader.epoch, leader.id
            follower.high_watermark = -1 if follower.high_watermark < 0 else follower.high_watermark
        if follower.role != "follower":
            return False
        self._agree(follower, leader)
        follower.batches += [batch for batch in leader.batches if batch.base >= follower.end][
            :limit
        ]
        leader.ends[id] = follower.end
        self._advance(leader)
        follower.high_watermark = max(
            follower.high_watermark, min(leader.high_watermark, follower.end)
        )
        return True

    def resign(self, id: int) -> None:
        """The leader gives up its epoch, and names itself for as long as that epoch is the last it
        knows.
        """
        if self.voters[id].role == "leader":
            self.voters[id].role = "resigned"

    def crash(self, id: int) -> None:
        """Everything a voter wrote is on its disk; what it was is not."""
        voter = self.voters[id]
        voter.up, voter.role, voter.leader_id, voter.high_watermark, voter.ends = (
            False,
            "follower",
            -1,
            -1,
            {},
        )

    def restart(self, id: int) -> None:
        self.voters[id].up = True

    def snapshot(self, id: int, filler: int) -> bool:
        """Voter ``id`` writes a snapshot at its high watermark. No two voters write the same bytes
        for the same state.
        """
        voter = self.voters[id]
        end = voter.high_watermark
        if not voter.up or end <= max(
            voter.start, *(known.end_offset for known in voter.snapshots), 0
        ):
            return False
        if all(batch.next != end for batch in voter.batches):
            return False
        snapshot_id = SnapshotId(end, voter.epoch_before(end))
        voter.snapshots[snapshot_id] = f"<{voter.id}|{snapshot_id}|{'#' * filler}>".encode()
        return True

    def clean(self, id: int, keep: int) -> None:
        """Voter ``id`` keeps its newest ``keep`` snapshots, and no log below the oldest of them."""
        voter = self.voters[id]
        for old in sorted(voter.snapshots)[:-keep]:
            del voter.snapshots[old]
        oldest = min(voter.snapshots, default=None)
        if oldest is not None and oldest.end_offset > voter.start:
            voter.batches = [batch for batch in voter.batches if batch.base >= oldest.end_offset]
            voter.start, voter.start_epoch = oldest

    def _agree(self, follower: Voter, leader: Voter) -> None:
        if leader.start > follower.start:
            ends = {(batch.next, batch.epoch) for batch in follower.batches}
            if (leader.start, leader.start_epoch) not in ends:
                self._load_snapshot(follower, leader)
        of_leader = {batch.base: batch for batch in leader.batches}
        for n, batch in enumerate(follower.batches):
            if batch.base >= leader.start and of_leader.get(batch.base) != batch:
                assert batch.base >= follower.high_watermark, (
                    "the model truncates what was committed"
                )
                del follower.batches[n:]
                break

    def _load_snapshot(self, follower: Voter, leader: Voter) -> None:
        snapshot_id = leader.latest_snapshot
        assert snapshot_id is not None
        follower.batches, follower.snapshots = [], {snapshot_id: leader.snapshots[snapshot_id]}
        follower.start, follower.start_epoch = snapshot_id
        assert follower.high_watermark <= snapshot_id.end_offset, (
            "the model loses what was committed"
        )
        follower.high_watermark = snapshot_id.end_offset

    def _advance(self, leader: Voter) -> None:
        """The high watermark: what a majority has, once that covers a record of the leader's own
        epoch (KAFKA-12619).
        """
        ends = sorted(
            [leader.end, *(leader.ends.get(id, 0) for id in self.voters if id != leader.id)],
            reverse=True,
        )
        reached = ends[self.majority - 1]
        if reached <= leader.epoch_begin or reached <= leader.high_watermark:
            return
        leader.high_watermark = reached
        mine = [batch for batch in leader.batches if batch.next <= reached]
        for batch in mine:
            if batch.base >= self.committed_end:
                assert batch.base == self.committed_end, "the model commits with a gap"
                self.committed.append(batch)
        known = {batch.base: batch for batch in self.committed}
        assert all(known[batch.base] == batch for batch in mine), (
            "the model commits two things at one offset"
        )
