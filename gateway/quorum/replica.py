"""The log's side of an observer: what an error-free answer of the leader means for the local log and its high watermark.

Follower rules of KIP-595 and KIP-630 (``KafkaRaftClient.handleFetchResponse``, ``handleFetchSnapshotResponse``). Knows
nothing of who leads, of epochs that change, or of time.
"""

from __future__ import annotations

from gateway.quorum import answers, sentences, voters
from gateway.quorum.answers import Batches, Nonsense
from gateway.quorum.divergence import ReplicatedLog, truncation_offset
from gateway.quorum.download import Download
from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    Stop,
    Tell,
    Truncate,
)
from gateway.quorum.requests import Position
from gateway.snapshot_id import SnapshotId
from kwire.messages.fetch_response import PartitionData
from kwire.messages.fetch_snapshot_response import PartitionSnapshot


class Replica:
    """Our copy. The log itself changes only when the effects given out are performed; :meth:`settle` looks whether they were."""

    def __init__(self, log: ReplicatedLog, high_watermark: int, *, history: bool) -> None:
        self._log = log
        #: Committed and in our log: never falls. What a snapshot stands for is committed, even if the number was lost.
        snapshot_end = log.latest_snapshot[0] if log.latest_snapshot else 0
        self.high_watermark = min(max(high_watermark, log.start_offset, snapshot_end), log.end_offset)
        self.told_high_watermark = -1  #: the leader's as last told, -1 before
        self.download: Download | None = None
        #: Voters of the newest record about them, once the log is caught up: older records name older voters.
        self.voters: frozenset[int] | None = None
        self._recorded: frozenset[int] | None = None
        self._read: frozenset[int] | None = None  # from bytes that the log has not accepted yet
        self._read_history = history
        self._history: SnapshotId | None = None
        self._history_tried: SnapshotId | None = None  # below which there was nothing to be had
        self._history_found: SnapshotId | None = None
        self._awaited: tuple[int, int, int] | None = None  # how the log was before the effects given out
        self._before = self.high_watermark  # and the high watermark

    @property
    def log_end(self) -> Position:
        """Where the local log ends."""
        return Position(self._log.end_offset, self._log.last_epoch)

    @property
    def fetch_position(self) -> Position:
        """What to fetch next.

        A leader diverts to its newest snapshot whoever comes with an epoch older than that of its oldest one, or to offset 0,
        even while its log goes back further (``ReplicatedLog.validateOffsetAndEpoch``). Below that snapshot it gives its log
        to who names the snapshot's epoch; and at offset 1 the batch which that lies in, the first.
        """
        if self._history is not None:
            return Position(max(1, self._log.end_offset), self._history.epoch)
        return self.log_end

    @property
    def told_or_known(self) -> int:
        """The high watermark to tell the leader (KIP-1166): its own as last told, at first ours; -1 while unknown."""
        return self.told_high_watermark if self.told_high_watermark >= 0 else self.high_watermark or -1

    @property
    def awaiting(self) -> bool:
        """Were effects given out that change the log, and not looked after yet?"""
        return self._awaited is not None

    def performed(self) -> None:
        """All effects given out so far were performed: what comes now can be taken back without them."""
        self._before = self.high_watermark

    def settle(self) -> bool | None:
        """Did the effects given out change the log? None when there were none that should."""
        if self._awaited is None:
            return None
        before, self._awaited = self._awaited, None
        if self._state() != before:
            self._recorded, self._read = self._read or self._recorded, None
            return True
        self.high_watermark = self._before
        return False

    def rejected(self) -> list[Effect]:
        """The log refused one of the last effects: what they promised is taken back."""
        self.high_watermark, self._awaited = self._before, None
        return self.abandon()

    def abandon(self) -> list[Effect]:
        """Give up the snapshot on its way, and any attempt at the history below one."""
        self._history = self._read = None
        download, self.download = self.download, None
        return [AbandonSnapshot(download.id)] if download else []

    def interrupt(self) -> None:
        """The leader was lost: a snapshot on its way goes on only when it points to that one again."""
        self._history = None
        if self.download is not None:
            self.download.interrupted = True

    def take(self, partition: PartitionData, leader: str, epoch: int) -> list[Effect]:
        """What an error-free Fetch answer of the leader (``leader``: its name for sentences) of ``epoch`` brings.

        Raises Nonsense when it is nothing that a leader says.
        """
        history, self._history = self._history, None
        snapshot_id = answers.given_snapshot(partition, epoch)
        diverging = answers.given_divergence(partition)
        if history is not None:
            return self._take_history(partition, history, snapshot_id, diverging, leader, epoch)
        if diverging is not None:
            return [*self.abandon(), *self._diverged(diverging, leader)]
        if snapshot_id is not None:
            return self._pointed_to(snapshot_id, partition, leader)
        batches = answers.given_batches(partition, self.log_end, epoch)
        return [*self.abandon(), *self._continue(batches, partition.high_watermark)]

    def take_chunk(self, partition: PartitionSnapshot) -> list[Effect]:
        """What an error-free FetchSnapshot answer brings; nothing when it has no bytes. Raises Nonsense."""
        download = self.download
        if download is None:
            raise Nonsense("bytes of a snapshot that nobody waits for")
        chunk = download.take(partition)
        if chunk is None:
            return []
        if chunk.position == 0:
            self._read = voters.voters_recorded(chunk.data)
        if not download.complete:
            return [chunk]
        self.download = None
        self._await()
        told = Tell("snapshot-loaded", {"snapshot": str(download.id), "bytes": chunk.size})
        return [chunk, InstallSnapshot(download.id), *self._advance(download.id.end_offset), told]

    def _continue(self, batches: Batches | None, told: int) -> list[Effect]:
        """Batches that follow our end, if any, and the leader's high watermark, as far as we have what it covers."""
        effects: list[Effect] = []
        end = self._log.end_offset
        if batches is not None:
            end = batches.end.offset
            self._await()
            effects.append(Append(batches.data))
            self._read = voters.voters_recorded(batches.data)
        self.told_high_watermark = told if told >= 0 else self.told_high_watermark
        # A new leader tells a lower one, or none, until it has committed in its own epoch: ours stays.
        effects += self._advance(min(told, end))
        if 0 <= told <= self._log.end_offset:
            self.voters = self._recorded
        return effects

    def _advance(self, high_watermark: int) -> list[Effect]:
        if high_watermark <= self.high_watermark:
            return []
        self.high_watermark = high_watermark
        return [Advance(high_watermark)]

    def _diverged(self, leaders: Position, leader: str) -> list[Effect]:
        """Cut back what was never committed."""
        end = self.log_end
        target = truncation_offset(self._log, leaders)
        if target < self._committed:
            return [Stop(sentences.below_high_watermark(leader, leaders, end, target, self._committed))]
        if target >= end.offset:
            raise Nonsense(
                f"logs that diverge at epoch {leaders.epoch}, offset {leaders.offset}, which the local log "
                f"(end {end.offset}, epoch {end.epoch}) does not contradict"
            )
        self._await()
        fields = {"to": target, "from": end.offset, "epoch": end.epoch, "leader_epoch": leaders.epoch, "leader": leader}
        return [Truncate(target), Tell("log-truncated", fields)]

    def _pointed_to(self, id: SnapshotId, partition: PartitionData, leader: str) -> list[Effect]:
        """The leader no longer has what follows our end, but a snapshot of it."""
        end = self.log_end
        if id == (end.offset, end.epoch):
            raise Nonsense(f"the snapshot {id}, at whose end the local log already is")
        if id.end_offset < self._committed:
            return [Stop(sentences.snapshot_below_high_watermark(leader, str(id), end, self._committed))]
        if self._read_history and 0 <= partition.log_start_offset <= self._committed and id != self._history_tried:
            return self._read_below(id, end, leader)
        return self._begin(id, leader)

    def _read_below(self, id: SnapshotId, end: Position, leader: str) -> list[Effect]:
        """Go on with the leader's log instead of its snapshot ``id``, from what is committed.

        The epoch then named is not that of our last record, so the leader cannot see whether the logs agree. They do as far
        as ours is committed: what is not, is dropped first.
        """
        abandoned = self.abandon()
        if end.offset > self._committed:
            self._await()
            fields = {"to": self._committed, "from": end.offset, "epoch": end.epoch, "below": str(id), "leader": leader}
            return [*abandoned, Truncate(self._committed), Tell("log-truncated", fields)]
        self._history = id
        if id == self._history_found:
            return abandoned
        return [*abandoned, Tell("history-tried", {"below": str(id), "from": end.offset, "leader": leader})]

    def _take_history(
        self,
        partition: PartitionData,
        instead: SnapshotId,
        snapshot_id: SnapshotId | None,
        diverging: Position | None,
        leader: str,
        epoch: int,
    ) -> list[Effect]:
        """The answer to a Fetch below a snapshot: what follows our end when it begins there, else the snapshot it is."""
        if snapshot_id is None and diverging is None:
            try:
                batches = answers.given_batches(partition, self.log_end, epoch)
            except Nonsense:
                batches = None  # the first batch is a single record, say: at offset 1 the leader gives the second one
            if batches is not None:
                effects = self._continue(batches, partition.high_watermark)
                if batches.end.offset < instead.end_offset and self.high_watermark == batches.end.offset:
                    self._history = instead  # all of it is committed, and there is more
                if instead != self._history_found:
                    effects.append(Tell("history-found", {"below": str(instead), "leader": leader}))
                self._history_found = instead
                return effects
        self._history_tried = instead
        return self._begin(snapshot_id or instead, leader)

    def _begin(self, id: SnapshotId, leader: str) -> list[Effect]:
        """Load a snapshot, or go on with it."""
        if self.download is not None and self.download.id == id:
            self.download.interrupted = False
            return [Tell("snapshot-resumed", {"snapshot": str(id), "position": self.download.position, "leader": leader})]
        abandoned = self.abandon()
        self.download = Download(id)
        return [*abandoned, BeginSnapshot(id), Tell("snapshot-begun", {"snapshot": str(id), "leader": leader})]

    @property
    def _committed(self) -> int:
        """What may never be cut: also below a snapshot that is installed while the number that goes with it is not yet kept."""
        return max(self.high_watermark, self._log.start_offset)

    def _await(self) -> None:
        self._awaited = self._state()

    def _state(self) -> tuple[int, int, int]:
        return self._log.start_offset, self._log.end_offset, self._log.last_epoch
