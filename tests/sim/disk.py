"""Simulates a data directory: the durable files, the writes under way, and the result of a crash.

The crash model is that of the real log: one worker performs the effects in order. ``quorum-state``
is replaced and synced by itself. Until the sync at the end of the work that the worker took, writes
to the log survive as a prefix, torn in any batch. An installed snapshot is all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.quorum.effects import (
    AbandonSnapshot,
    Append,
    BeginSnapshot,
    DiskEffect,
    ElectionState,
    InstallSnapshot,
    Persist,
    SnapshotChunk,
    Truncate,
)
from gateway.quorum.events import Durable, Event, Installed, NotInstalled
from gateway.quorum.settings import Stored
from gateway.quorum.voter_set import VoterSet
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.uuid import Uuid
from tests.sim.batches import Batch, Log, Parser, Snapshot


class Disk:
    """The directory of one node. ``log`` is durable; ``view`` also has what the process has
    appended and the disk has not synced.
    """

    def __init__(
        self,
        directory_id: Uuid,
        parser: Parser,
        name: Callable[[int, Batch], int],
        files: dict[bytes, Snapshot],
    ) -> None:
        self.directory_id = directory_id
        self.formatted: VoterSet | None = None  #: the voters given at formatting (KIP-853)
        self.election: ElectionState | None = None
        self.elections: list[ElectionState] = []  #: every state that quorum-state held
        self.elections_checked = 0
        self.log = Log()
        self.view = Log()
        self.snapshots: dict[SnapshotId, Snapshot] = {}
        self.high_watermark = 0  #: as last stored
        self.durable = 0  #: token up to which everything is done
        self.queued: list[DiskEffect] = []
        self.in_flight: list[DiskEffect] = []
        self._part: tuple[SnapshotId, bytearray] | None = None
        self._parser, self._name, self._files = parser, name, files

    def accept(self, effect: DiskEffect) -> tuple[Batch, ...]:
        """Queue an effect for the worker. Return the batches that it appends."""
        self.queued.append(effect)
        if isinstance(effect, Append):
            batches = self._parser.batches(effect.data)
            for batch in batches:
                self.view.append(batch, self._name(self.view.last_prefix, batch))
            return batches
        if isinstance(effect, Truncate):
            self.view.truncate(effect.offset)
        return ()

    def begin(self, share: float) -> None:
        """The worker takes a share (0 to 1) of the queued effects, at least one; the core does not
        know how many.
        """
        count = max(1, min(len(self.queued), int(share * (len(self.queued) + 1))))
        self.in_flight, self.queued = self.queued[:count], self.queued[count:]

    def finish(self) -> list[Event]:
        """The effects that the worker took are performed and synced. Return the events for the
        core, ``Durable`` last.
        """
        work, self.in_flight = self.in_flight, []
        events: list[Event] = []
        for effect in work:
            event = self._perform(effect)
            if event is not None:
                events.append(event)
            self.durable = max(self.durable, getattr(effect, "token", 0))
        events.append(Durable(self.durable))
        return events

    def crash(self, number: Callable[[int], float]) -> None:
        """The machine stops. ``number(n)``: the n-th number of [0, 1), which decides how much of
        the work under way survives.
        """
        done = self.in_flight[: int(number(0) * (len(self.in_flight) + 1))]
        torn = self.in_flight[len(done)] if len(done) < len(self.in_flight) else None
        synced = max(
            (n for n, effect in enumerate(done) if isinstance(effect, InstallSnapshot)), default=-1
        )
        written = [
            n
            for n, effect in enumerate(done)
            if n > synced and isinstance(effect, Append | Truncate)
        ]
        kept = set(written[: int(number(1) * (len(written) + 1))])
        for n, effect in enumerate(done):
            if n <= synced or n in kept or not isinstance(effect, Append | Truncate):
                self._perform(effect)
        if isinstance(torn, Append) and len(kept) == len(written):
            self._tear(torn, number(2))
        self.in_flight, self.queued, self._part, self.durable = [], [], None, 0
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self.view = self.log.copy()

    def installed(self, id: SnapshotId) -> None:
        """The process has learned that its log now begins at the end of that snapshot."""
        self.view.install(self.snapshots[id])

    def stored(self) -> Stored:
        """The state that a process finds when it starts in this directory."""
        voters: list[tuple[int, VoterSet]] = []
        kraft_versions: list[tuple[int, int]] = []
        if self.formatted is not None:
            voters.append((-1, self.formatted))
            kraft_versions.append((-1, 1))
        newest = max(self.snapshots, default=None)
        if newest is not None:
            snapshot = self.snapshots[newest]
            if snapshot.voters is not None:
                voters.append((newest.end_offset - 1, snapshot.voters))
            if snapshot.kraft_version:
                kraft_versions.append((newest.end_offset - 1, snapshot.kraft_version))
        for batch in self.log.batches:
            if newest is None or batch.base >= newest.end_offset:
                voters += batch.voters
                kraft_versions += batch.kraft_versions
        return Stored(
            election=self.election,
            start_offset=self.log.start_offset,
            start_epoch=self.log.start_epoch,
            end_offset=self.log.end_offset,
            epochs=self.log.epochs(),
            snapshots=tuple(sorted(self.snapshots)),
            high_watermark=self.high_watermark,
            voters=tuple(voters),
            kraft_versions=tuple(kraft_versions),
        )

    def voters_of_view(self) -> tuple[VoterSet | None, int]:
        """(voters, kraft.version) by ``view``; voters is None where neither the log nor formatting
        sets any.
        """
        newest = max(
            (id for id in self.snapshots if id.end_offset <= self.view.start_offset), default=None
        )
        snapshot = self.snapshots[newest] if newest is not None else None
        voters = (snapshot.voters if snapshot is not None else None) or self.formatted
        kraft_version = (snapshot.kraft_version if snapshot is not None else 0) or int(
            self.formatted is not None
        )
        for batch in self.view.batches:
            voters = batch.voters[-1][1] if batch.voters else voters
            kraft_version = batch.kraft_versions[-1][1] if batch.kraft_versions else kraft_version
        return voters, kraft_version

    def voters_at(self, offset: int) -> tuple[VoterSet | None, int]:
        """(voters, kraft.version) by the durable log below ``offset``."""
        voters, kraft_version = self.formatted, int(self.formatted is not None)
        stored = self.stored()
        for at, found in stored.voters:
            voters = found if at < offset else voters
        for at, version in stored.kraft_versions:
            kraft_version = version if at < offset else kraft_version
        return voters, kraft_version

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Add a snapshot that this node made."""
        self.snapshots[snapshot.id] = snapshot
        self._files[snapshot.data] = snapshot

    def clean(self, keep: int) -> None:
        """Delete all but the newest ``keep`` snapshots, and the log below the oldest of these."""
        for old in sorted(self.snapshots)[:-keep]:
            del self.snapshots[old]
        oldest = min(self.snapshots)
        if oldest.end_offset > self.log.start_offset:
            self.log.clean(oldest.end_offset)
            self.view.clean(oldest.end_offset)

    def spoil_epoch(self, epoch: int) -> None:
        """Write an epoch that no node of this release believes, between two processes."""
        self.election = ElectionState(epoch)

    def _perform(self, effect: DiskEffect) -> Event | None:
        if isinstance(effect, Append):
            for batch in self._parser.batches(effect.data):
                self.log.append(batch, self._name(self.log.last_prefix, batch))
        elif isinstance(effect, Persist):
            self.election = effect.state
            self.elections.append(effect.state)
        elif isinstance(effect, Truncate):
            self.log.truncate(effect.offset)
        elif isinstance(effect, BeginSnapshot):
            self._part = (effect.id, bytearray())
        elif isinstance(effect, SnapshotChunk):
            assert self._part is not None, "a chunk without a snapshot"
            assert effect.position == len(self._part[1]), (
                "a chunk that does not continue the snapshot"
            )
            self._part[1].extend(effect.data)
        elif isinstance(effect, AbandonSnapshot):
            self._part = None
        elif isinstance(effect, InstallSnapshot):
            return self._install(effect.id)
        return None

    def _install(self, id: SnapshotId) -> Event:
        assert self._part is not None, "no snapshot was begun"
        assert self._part[0] == id, "another snapshot was begun"
        snapshot = self._files.get(bytes(self._part[1]))
        self._part = None
        if snapshot is None or snapshot.id != id:
            return NotInstalled(id, "its bytes are not those of a snapshot")
        self.snapshots = {id: snapshot}
        self.log.install(snapshot)
        return Installed(id, snapshot.voters, snapshot.kraft_version)

    def _tear(self, append: Append, number: float) -> None:
        """Part of a write survives: opening the log keeps whole batches and truncates the rest."""
        batches = self._parser.batches(append.data)
        for batch in batches[: int(number * (len(batches) + 1))]:
            self.log.append(batch, self._name(self.log.last_prefix, batch))
