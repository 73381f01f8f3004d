"""Simulates a process around one ``Raft``: performs its effects in order, holds back the messages
that wait for the disk, and ends where the schedule kills it.

It does in simulated time what ``gateway/server/quorum/raft_driver.py`` does with threads and
sockets. The world delivers the events.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from gateway.base.leader_epochs import OUT_OF_REACH
from gateway.quorum.effects import Effect, Reply, Report, Send
from gateway.quorum.events import Event, ImageLacks, Installed, Requested, Tick
from gateway.quorum.raft import Raft
from gateway.quorum.settings import RaftSettings
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from tests.sim import chance, node_effects, wire
from tests.sim.disk import Disk
from tests.sim.history import require
from tests.sim.links import Asked

if TYPE_CHECKING:
    from tests.sim.world import World

#: The most ticks without any time between them.
_TICKS_MAX: Final = 20


class Node:
    """A process that ends and restarts, with its disk and its clock."""

    def __init__(self, world: World, settings: RaftSettings, disk: Disk, place: int) -> None:
        self.world, self.settings, self.disk, self.place = world, settings, disk, place
        self.id = settings.node_id
        [self.address] = settings.endpoints.values()
        self.raft: Any = None  #: None while it is down
        self.incarnation = 0  #: how often it was started
        self.clock_rate = 1.0
        self.clock_base = 1000.0 * (place + 1)
        self.wall_skew_ms = 0
        self.local_now = self.clock_base
        self.paused_until = 0.0
        self.stopped = ""  #: the reason for which it stopped for good
        self.removed = False  #: it must not be started again
        #: The record that its image lacks. It is derived from the log, so that a restart changes
        #: nothing.
        self.image_lacks: str | None = None
        self._forget()

    def _forget(self) -> None:
        """Reset the state that a process loses when it ends."""
        self.asked: dict[int, Asked] = {}
        self.given: set[int] = set()  # numbers of the requests that the core was given
        self.sends: dict[int, Send] = {}
        self.held: list[Send | Reply] = []
        self.epoch = self.high_watermark = self.shown = -1
        self.role = ""
        self.own_epoch_offset = -1
        self.led_since = 0.0
        self.fetched_at: dict[int, float] = {}
        #: proposals accepted and not committed: number -> (base, end)
        self.waiting: dict[int, tuple[int, int]] = {}
        self.armed = self.deadline = math.inf
        self._ticks = 0
        self.voters_changed = False  #: since the last event, by a record

    # --- processes

    @property
    def listener(self) -> str:
        """The name of the listener that other nodes reach."""
        [name] = self.settings.endpoints
        return name

    @property
    def up(self) -> bool:
        return self.raft is not None

    @property
    def leads(self) -> bool:
        return self.raft is not None and self.raft.role == "leader"

    def start(self) -> None:
        """Start a process on what the disk holds."""
        world = self.world
        self._forget()
        self.incarnation += 1
        incarnation = self.incarnation
        self.paused_until = 0.0
        stored = self.disk.stored()
        self.floor = max(stored.high_watermark, stored.start_offset)
        numbers = iter(range(1 << 62))
        place = self.place

        def random() -> float:
            return world.chance.number(-1, place, incarnation, next(numbers))

        now, wall_ms = self._clocks()
        self.raft = Raft(self.settings, stored, random=random, now=now, wall_ms=wall_ms)
        self.epoch, self.high_watermark = self.raft.epoch, self.raft.high_watermark
        require(
            stored.election is None or self.epoch >= min(stored.election.epoch, OUT_OF_REACH >> 1),
            "3: node {} starts in epoch {}",
            self.id,
            self.epoch,
        )
        require(self.raft.role != "leader", "1: node {} starts as a leader", self.id)
        world.note("node %d starts: %s", self.id, stored)
        self._do(self.raft.start(now, wall_ms))
        if self.raft is not None:
            self._after("start")
            world.checker.voters_in_force(self)
        if self.image_lacks is not None:
            self.step(ImageLacks(self.image_lacks))

    def halt(self, why: str) -> None:
        """The process ends at once; the disk keeps what survives a crash."""
        if self.raft is None:
            return
        world, place, incarnation = self.world, self.place, self.incarnation
        world.note("node %d is killed: %s", self.id, why)
        self.disk.crash(lambda n: world.chance.number(chance.TORN, place, incarnation, n))
        world.checker.persisted(self)
        world.checker.halted(self)
        self.raft = None
        self._forget()
        world.halted(self)

    def replace_disk(self, disk: Disk) -> None:
        """Put in a new, empty disk, whose directory id the process takes."""
        self.disk = disk
        self.settings = replace(self.settings, directory_id=disk.directory_id)

    def step(self, event: Event) -> None:
        """Deliver one event to the core and perform its effects."""
        if self.raft is None:
            return
        now, wall_ms = self._clocks()
        self.world.events += 1
        if isinstance(event, Requested):
            self.given.add(event.number)
            self._note_fetch(event)
        elif isinstance(event, ImageLacks):
            self.image_lacks = event.what
        if self.world.noting:
            self.world.note("node %d <- %s", self.id, wire.event_text(event))
        self._do(self.raft.step(event, now, wall_ms))
        if self.raft is not None:
            self._after(type(event).__name__)

    def _note_fetch(self, event: Requested) -> None:
        """A leader knows that a replica follows from the moment in which it reads the Fetch,
        however long that was under way.
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
        """Check the invariants of every event, and schedule the next Tick."""
        raft, checker = self.raft, self.world.checker
        epoch, high_watermark, role = raft.epoch, raft.high_watermark, raft.role
        if epoch != self.epoch:
            if self.settings.observer is not None and epoch >= self.raft.log.last_epoch:
                self.epoch = min(self.epoch, epoch - 1)  # no leader had answered it in the other
            require(epoch > self.epoch, "3: node {}: epoch {} after {}", self.id, epoch, self.epoch)
            require(epoch < 1 << 31, "3: node {}: epoch {}", self.id, epoch)
            self.epoch = epoch
        require(
            role not in ("leader", "candidate", "prospective") or not self._lacked(event),
            "20: node {} is {} and lacks a part of the log",
            self.id,
            role,
        )
        if role == "leader":
            if self.role != role:
                self.led_since = self.local_now
            checker.leads(self)
        elif self.role == "leader":
            self._require_no_parked_fetch()
        self.role = role
        if high_watermark != self.high_watermark:
            checker.high_watermark(self, self.high_watermark, high_watermark)
            self.high_watermark = high_watermark
        end = raft.log.end_offset
        require(
            end == self.disk.view.end_offset,
            "4: node {}: its log ends at {}, its effects end at {}",
            self.id,
            end,
            self.disk.view.end_offset,
        )
        if self.voters_changed:
            self.voters_changed = False
            checker.voters_in_force(self)
        self.world.trace.append(
            (self.world.now, self.place, event, epoch, high_watermark, end, role)
        )
        self._arm()

    def _lacked(self, event: object) -> bool:
        """Whether the core knows that the image lacks something: not when it has just started."""
        return self.image_lacks is not None and event != "start"

    def _require_no_parked_fetch(self) -> None:
        """17: a deposed leader has answered all Fetches that it had parked (KAFKA-10677)."""
        held = {effect.number for effect in self.held if isinstance(effect, Reply)}
        given = [(n, self.asked.get(n)) for n in sorted(self.given)]
        waiting = [
            n
            for n, asked in given
            if asked and n not in held and isinstance(asked.message, FetchRequest)
        ]
        self.given = {n for n, asked in given if asked}
        require(not waiting, "17: node {} is deposed and keeps Fetches {} parked", self.id, waiting)

    def _arm(self) -> None:
        deadline = self.deadline = self.raft.deadline
        if deadline == math.inf:
            return
        at = max((deadline - self.clock_base) / self.clock_rate, self.world.now)
        if at < self.armed:
            self.armed = at
            incarnation = self.incarnation
            self.world.at(at, lambda: self._tick(incarnation, at))

    def _tick(self, incarnation: int, at: float) -> None:
        if incarnation != self.incarnation or self.raft is None or at != self.armed:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self._tick(incarnation, at))
            return
        self.armed = math.inf
        self._clocks()
        # Rounding must not postpone a timer that is due by this clock.
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
        require(self._ticks < _TICKS_MAX, "17: node {} asks for ticks without end", self.id)

    # --- effects

    def _do(self, effects: list[Effect]) -> None:
        """Perform effects in their order. The process may be killed before each and after
        the last.
        """
        incarnation = self.incarnation
        for effect in effects:
            if self._killed():
                return
            if self.world.noting and not isinstance(effect, Report):
                self.world.note("node %d -> %s", self.id, wire.effect_text(effect))
            node_effects.PERFORM[type(effect)](self, effect)
            if self.incarnation != incarnation or self.raft is None:
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

    # --- the disk

    def _write(self) -> None:
        world, incarnation, share = self.world, self.incarnation, 1.0
        if len(self.disk.queued) > 1 and world.chance.happens(chance.PART, self.place, -1, 0.3):
            share = world.chance.number(chance.PART, self.place, incarnation, world.events, 1)
        self.disk.begin(share)
        world.at(world.now + world.flush_s(self), lambda: self._written(incarnation))

    def _written(self, incarnation: int) -> None:
        """The disk has synced the effects that it took: held messages leave, the core gets its
        events, and the next effects begin.
        """
        if incarnation != self.incarnation or self.raft is None:
            return
        if self.world.now < self.paused_until:
            self.world.at(self.paused_until, lambda: self._written(incarnation))
            return
        events = self.disk.finish()
        self.world.checker.persisted(self)
        held, self.held = self.held, []
        for effect in held:
            if effect.after > self.disk.durable:
                self.held.append(effect)
                continue
            if self._killed():
                return
            node_effects.release(self, effect)
        for event in events:
            if isinstance(event, Installed):
                self.disk.installed(event.id)
            self.step(event)
            if incarnation != self.incarnation or self.raft is None:
                return
            if isinstance(event, Installed):
                self.world.checker.voters_in_force(self)
        if self.disk.queued and not self.disk.in_flight:
            self._write()
