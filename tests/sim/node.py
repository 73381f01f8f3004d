"""A simulated process around one ``Raft``: performs effects in order, holds back what waits for the
disk, dies where told.

What the real driver does with threads and sockets, done in simulated time. The world delivers
events to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.quorum.effects import (
    AbandonSnapshot,
    Accepted,
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    Leading,
    NotLeading,
    Persist,
    Refused,
    Reply,
    Report,
    Send,
    ShutDownComplete,
    SnapshotChunk,
    Stop,
    Truncate,
)
from gateway.quorum.events import Event, Installed, Requested, Tick
from gateway.quorum.raft import Raft
from gateway.quorum.settings import RaftSettings
from kwire.messages.describe_quorum_response import DescribeQuorumResponse
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from tests.sim import chance, wire
from tests.sim.disk import Disk
from tests.sim.invariants import require

if TYPE_CHECKING:
    from tests.sim.world import World

#: Ticks that may follow each other without any time between them.
_TICKS_MAX: Final = 20


class Asked(NamedTuple):
    """A request that this process has not answered: who waits for it (None: a client), and under
    which number.
    """

    origin: Node | None
    life: int
    number: int
    version: int
    message: Any


class Node:
    """A process that comes and goes, its disk, its clock."""

    def __init__(self, world: World, settings: RaftSettings, disk: Disk, place: int) -> None:
        self.world, self.settings, self.disk, self.place = world, settings, disk, place
        self.id = settings.node_id
        self.address = settings.endpoints[settings.listener]
        self.raft: Any = None  #: None while it is down
        self.life = 0  #: how often it was born
        self.clock_rate = 1.0
        self.clock_base = 1000.0 * (place + 1)
        self.wall_skew_ms = 0
        self.local_now = self.clock_base
        self.paused_until = 0.0
        self.stopped = ""  #: why it stopped for good
        self.removed = False  #: is not to be born again
        self._forget()

    def _forget(self) -> None:
        """What a process does not keep."""
        self.asked: dict[int, Asked] = {}
        self.given: set[int] = set()  # the numbers of those that the core was given
        self.sends: dict[int, Send] = {}
        self.held: list[Send | Reply] = []
        self.epoch = self.high_watermark = self.shown = -1
        self.role = ""
        self.own_epoch_offset = -1
        self.led_since = 0.0
        self.fetched_at: dict[int, float] = {}
        self.waiting: dict[
            int, tuple[int, int]
        ] = {}  # proposals accepted and not committed: number -> (base, end)
        self.armed = self.deadline = math.inf
        self._ticks = 0
        self._voters_moved = False  # a record said who votes

    # --- life

    @property
    def up(self) -> bool:
        return self.raft is not None

    @property
    def leads(self) -> bool:
        return self.raft is not None and self.raft.role == "leader"

    def be_born(self) -> None:
        """Start a process on what the disk holds."""
        world = self.world
        self._forget()
        self.life += 1
        life = self.life
        self.paused_until = 0.0
        stored = self.disk.stored()
        self.floor = max(stored.high_watermark, stored.start_offset)
        numbers = iter(range(1 << 62))
        place = self.place

        def random_fraction() -> float:
            return world.chance.number(-1, place, life, next(numbers))

        now, wall_ms = self._clocks()
        self.raft = Raft(self.settings, stored, random=random_fraction, now=now, wall_ms=wall_ms)
        self.epoch, self.high_watermark = self.raft.epoch, self.raft.high_watermark
        require(
            stored.election is None or self.epoch >= stored.election.epoch,
            "3: node {} is born in epoch {}",
            self.id,
            self.epoch,
        )
        require(self.raft.role != "leader", "1: node {} is born a leader", self.id)
        world.note("node %d is born: %s", self.id, stored)
        self._do(self.raft.start(now, wall_ms))
        if self.raft is not None:
            self._after("birth")
            world.checker.voters_in_force(self)

    def die(self, why: str) -> None:
        """The process ends here and now; the disk keeps what it may."""
        if self.raft is None:
            return
        world, place, life = self.world, self.place, self.life
        world.note("node %d is killed: %s", self.id, why)
        self.disk.crash(lambda n: world.chance.number(chance.TORN, place, life, n))
        world.checker.persisted(self)
        world.checker.died(self)
        self.raft = None
        self._forget()
        world.died(self)

    def replace_disk(self, disk: Disk) -> None:
        """A new, empty disk, whose directory id the process will bear."""
        self.disk = disk
        self.settings = replace(self.settings, directory_id=disk.directory_id)

    def step(self, event: Event) -> None:
        """One event, and everything the core wants done for it."""
        if self.raft is None:
            return
        now, wall_ms = self._clocks()
        self.world.events += 1
        if isinstance(event, Requested):
            self.given.add(event.number)
            self._hears(event)
        if self.world.noting:
            self.world.note("node %d <- %s", self.id, wire.event_text(event))
        self._do(self.raft.step(event, now, wall_ms))
        if self.raft is not None:
            self._after(type(event).__name__)

    def _hears(self, event: Requested) -> None:
        """A leader learns that somebody follows when it reads that; it knows neither how long that
        lay about nor who wrote it.
        """
        message = event.message
        if not isinstance(message, FetchRequest | FetchSnapshotRequest) or not self.leads:
            return
        replica_id = message.replica_id
        if isinstance(message, FetchRequest) and event.version >= 15:
            replica_id = message.replica_state.replica_id
        if any(
            one.current_leader_epoch == self.raft.epoch
            for topic in message.topics
            for one in topic.partitions
        ):
            self.fetched_at[replica_id] = self.local_now

    def _clocks(self) -> tuple[float, int]:
        """The monotonic clock of this node (s), which never goes back, and its wall clock (ms)."""
        now = self.world.now
        self.local_now = max(self.local_now, self.clock_base + now * self.clock_rate)
        return self.local_now, 1_700_000_000_000 + int(now * 1000) + self.wall_skew_ms

    def _after(self, event: object) -> None:
        """What is checked after every event, and when the next Tick is due."""
        raft, checker = self.raft, self.world.checker
        epoch, high_watermark, role = raft.epoch, raft.high_watermark, raft.role
        if epoch != self.epoch:
            require(epoch > self.epoch, "3: node {}: epoch {} after {}", self.id, epoch, self.epoch)
            require(epoch < 1 << 31, "3: node {}: epoch {}", self.id, epoch)
            self.epoch = epoch
        if role == "leader":
            if self.role != role:
                self.led_since = self.local_now
            checker.leads(self)
        elif self.role == "leader":
            self._require_nobody_waits()
        self.role = role
        if high_watermark != self.high_watermark:
            checker.high_watermark(self, self.high_watermark, high_watermark)
            self.high_watermark = high_watermark
        end = raft.log.end_offset
        require(
            end == self.disk.view.end_offset,
            "4: node {}: its log ends at {}, it gave out {}",
            self.id,
            end,
            self.disk.view.end_offset,
        )
        if self._voters_moved:
            self._voters_moved = False
            checker.voters_in_force(self)
        self.world.trace.append(
            (self.world.now, self.place, event, epoch, high_watermark, end, role)
        )
        self._arm()

    def _require_nobody_waits(self) -> None:
        """17: whoever leads no more has answered all Fetches that it let wait (KAFKA-10677)."""
        held = {effect.number for effect in self.held if isinstance(effect, Reply)}
        given = [(n, self.asked.get(n)) for n in sorted(self.given)]
        waiting = [
            n
            for n, asked in given
            if asked and n not in held and isinstance(asked.message, FetchRequest)
        ]
        self.given = {n for n, asked in given if asked}
        require(not waiting, "17: node {} leads no more and lets Fetches {} wait", self.id, waiting)

    def _arm(self) -> None:
        deadline = self.deadline = self.raft.deadline
        if deadline == math.inf:
            return
        at = max((deadline - self.clock_base) / self.clock_rate, self.world.now)
        if at < self.armed:
            self.armed = at
            life = self.life
            self.world.at(at, lambda: self._tick(life, at))

    def _tick(self, life: int, at: float) -> None:
        if life != self.life or self.raft is None or at != self.armed:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self._tick(life, at))
            return
        self.armed = math.inf
        self._clocks()
        # What was due by this clock is due now, whatever the rounding.
        if 0.0 < self.deadline - self.local_now < 1e-6:
            self.local_now = self.deadline
        if self.deadline > self.local_now:
            self._arm()
            return
        self.step(Tick())
        if self.raft is None:
            return
        if self.raft.role == "leader":
            self.world.checker.still_leads(self, "leads")
        self._ticks = self._ticks + 1 if self.deadline <= self.local_now else 0
        require(self._ticks < _TICKS_MAX, "17: node {} wants ticks without end", self.id)

    # --- effects

    def _do(self, effects: list[Effect]) -> None:
        """In their order; the process may be killed before each, and after the last."""
        life = self.life
        for effect in effects:
            if self._killed():
                return
            if self.world.noting and not isinstance(effect, Report):
                self.world.note("node %d -> %s", self.id, wire.effect_text(effect))
            _DO[type(effect)](self, effect)
            if self.life != life or self.raft is None:
                return
        if effects and not self._killed() and self.disk.queued and not self.disk.in_flight:
            self._write()

    def _killed(self) -> bool:
        world = self.world
        rate = world.faults.crash
        if rate and world.chance.happens(
            chance.CRASH,
            self.place,
            -1,
            rate * (10.0 if self.disk.queued or self.disk.in_flight else 1.0),
        ):
            world.crash(self, "between two effects")
            return True
        return False

    def _disk(self, effect: Any) -> None:
        self.disk.accept(effect)

    def _persist(self, effect: Persist) -> None:
        self.world.checker.persists(self, effect)
        self.disk.accept(effect)

    def _append(self, effect: Append) -> None:
        self.world.checker.appends(self, effect.base_offset)
        batches = self.disk.accept(effect)
        self.world.checker.appended(self, batches)
        self._voters_moved = self._voters_moved or any(
            batch.voters or batch.kraft_versions for batch in batches
        )

    def _truncate(self, effect: Truncate) -> None:
        self.world.checker.truncates(self, effect)
        self.disk.accept(effect)
        self.world.checker.voters_in_force(self)

    def _reply(self, effect: Reply) -> None:
        message = effect.message
        if isinstance(message, FetchResponse) and message.responses:
            self.world.checker.tells(self, message.responses[0].partitions[0].high_watermark)
        elif (
            isinstance(message, DescribeQuorumResponse)
            and message.topics
            and not message.topics[0].partitions[0].error_code
        ):
            # Now and not when it leaves: that may be long after, and says what was when it was
            # asked for.
            self.world.checker.still_leads(self, "answers as leader")
        self._wire(effect)

    def _wire(self, effect: Send | Reply) -> None:
        if effect.after > self.disk.durable:
            self.held.append(effect)
        else:
            self._release(effect)

    def _release(self, effect: Send | Reply) -> None:
        if isinstance(effect, Send):
            self.sends[effect.number] = effect
            self.world.network.send(self, effect)
        else:
            self.world.network.reply(self, effect)

    def _advance(self, effect: Advance) -> None:
        self.world.checker.advances(self, effect)
        if self.world.chance.happens(chance.REMEMBER, self.place, -1, 0.3):
            self.disk.high_watermark = effect.high_watermark
        for number, (base, end) in list(self.waiting.items()):
            if end <= effect.high_watermark:
                del self.waiting[number]
                self.world.acknowledged(number, base, end)

    def _leading(self, effect: Leading) -> None:
        self.world.checker.leading(self, effect)
        self.led_since, self.fetched_at = self.local_now, {}

    def _not_leading(self, _effect: NotLeading) -> None:
        self.waiting.clear()

    def _accepted(self, effect: Accepted) -> None:
        self.world.checker.accepted(self, effect.number, effect.base_offset, effect.end_offset)
        self.waiting[effect.number] = (effect.base_offset, effect.end_offset)

    def _refused(self, effect: Refused) -> None:
        self.world.checker.refused(effect.number)

    def _stop(self, effect: Stop) -> None:
        require(self.world.may_stop(self), "13: node {} stops: {}", self.id, effect.reason)
        self.stopped = effect.reason
        self.die(f"it stops: {effect.reason}")

    def _over(self, _effect: ShutDownComplete) -> None:
        self.world.crash(self, "it was shut down")

    def _nothing(self, _effect: Any) -> None:
        """What only people or the controller hear."""

    # --- the disk

    def _write(self) -> None:
        world, life, share = self.world, self.life, 1.0
        if len(self.disk.queued) > 1 and world.chance.happens(chance.PART, self.place, -1, 0.3):
            share = world.chance.number(chance.PART, self.place, life, world.events, 1)
        self.disk.begin(share)
        world.at(world.now + world.flush_s(self), lambda: self._written(life))

    def _written(self, life: int) -> None:
        """The disk is done with what it took: held messages leave, the core is told, and the next
        work begins.
        """
        if life != self.life or self.raft is None:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self._written(life))
            return
        told = self.disk.finish()
        self.world.checker.persisted(self)
        held, self.held = self.held, []
        for effect in held:
            if effect.after > self.disk.durable:
                self.held.append(effect)
                continue
            if self._killed():
                return
            self._release(effect)
        for event in told:
            if isinstance(event, Installed):
                self.disk.installed(event.id)
            self.step(event)
            if life != self.life or self.raft is None:
                return
            if isinstance(event, Installed):
                self.world.checker.voters_in_force(self)
        if self.disk.queued and not self.disk.in_flight:
            self._write()


_DO: Final[dict[type, Callable[[Node, Any], None]]] = {
    Persist: Node._persist,
    Append: Node._append,
    Truncate: Node._truncate,
    BeginSnapshot: Node._disk,
    SnapshotChunk: Node._disk,
    InstallSnapshot: Node._disk,
    AbandonSnapshot: Node._disk,
    Send: Node._wire,
    Reply: Node._reply,
    Advance: Node._advance,
    LeaderChanged: Node._nothing,
    Leading: Node._leading,
    NotLeading: Node._not_leading,
    Accepted: Node._accepted,
    Refused: Node._refused,
    ShutDownComplete: Node._over,
    Stop: Node._stop,
    Report: Node._nothing,
}
