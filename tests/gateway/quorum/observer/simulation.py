"""One observer against a model quorum, with every fault there is, from a seed.

``python -m tests.gateway.quorum.observer.simulation 42`` shows one.

Faults of a seed are drawn first (which kinds, how often), then events: elections, isolated leaders
with uncommitted tails, resignations, crashes, snapshots and log starts that move; requests and
answers lost, late, twice or corrupt; the observer's process killed between any two effects. At the
end the faults stop, and the observer must catch up.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gateway.quorum.effects import Advance, DiskEffect, Effect, Failure, FailureKind, Report, Send
from gateway.quorum.events import Answered, Durable, Event, Failed, Tick
from kwire.message import Message
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_response import FetchResponse
from kwire.messages.fetch_snapshot_response import FetchSnapshotResponse
from tests.gateway.quorum.batches import corrupted
from tests.gateway.quorum.observer import controller
from tests.gateway.quorum.observer.model import CLUSTER_ID, Quorum, Voter
from tests.gateway.quorum.observer.process import (
    Crash,
    DiskFailed,
    Process,
    Stopped,
    Violation,
    observer_settings,
    require,
)
from tests.gateway.quorum.observer.request_rules import RequestRate, check_request
from tests.gateway.quorum.observer.words import effect_text, request_text
from tests.gateway.quorum.observer.world import Faults, World

#: How long the observer may take to catch up once nothing fails any more, in simulated seconds.
CATCH_UP_S = 12.0


class Simulation:
    """The world of one seed. ``run`` raises Violation; ``trace`` tells what happened."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now = 0.0
        self.trace: list[str] = []
        self.faults = Faults.draw(rng)
        self.history = rng.random() < 0.3
        if self.history:
            self.faults = replace(self.faults, snapshots=3.0, cleanings=0.2)
        self.quorum = Quorum(rng.choice((3, 3, 5)), dynamic=rng.random() < 0.6)
        for voter in self.quorum.voters.values():
            voter.fetch_versions = range(4, rng.choice((14, 15, 16, 17, 18, 19, 19, 19)))
        known = rng.sample(sorted(self.quorum.voters), rng.randint(1, len(self.quorum.voters)))
        if any(voter.fetch_versions[-1] < 17 for voter in self.quorum.voters.values()):
            known = sorted(
                self.quorum.voters
            )  # without NodeEndpoints, all of them must be known beforehand
        self.world = World(self.quorum, self.faults, rng, self._note, self._died)
        self.process = Process(
            self.quorum,
            observer_settings(
                tuple(self.quorum.voters[id].address for id in known),
                cluster_id=rng.choice((None, CLUSTER_ID)),
                replica_id=rng.choice((-1, -1, -1, 70, 70, 70, 1)),
                fetch_max_bytes=rng.choice((1, 300, 100_000)),
                snapshot_max_bytes=rng.choice((7, 30, 1000)),
                history=self.history,
            ),
            rng,
        )
        self.process.before_effect = self._before_effect
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._parked: list[tuple[int, Send, FetchRequest, int, Voter, int]] = []
        self._open: set[int] = set()  # numbers of requests in flight
        self._held: list[tuple[Send, Message, int]] = []  # until what they name is durable
        self._durable = 0
        self._life = 0  # of this many processes and cores, the last
        self._rate = RequestRate()
        self._calm = False
        self._closing = (
            rng.random() < 0.3
        )  # controllers that close a connection instead of an error in FetchSnapshot
        self.seen: Counter[str] = Counter()  # effects by kind

    def run(self, duration: float = 20.0) -> str:
        """All of it; returns a hash of everything that happened."""
        try:
            late = (
                10.0 * self.rng.random()
            )  # there may be a snapshot already, or a history below one
            self.live(duration, late if self.history else self.rng.choice((0.0, late)))
            self._heal()
            self._run_until(duration + CATCH_UP_S)
        except Stopped:
            return self._hash()
        process = self.process
        process.check_shown()
        end = self.quorum.committed_end
        require(
            process.shown == end,
            f"caught up after {CATCH_UP_S} s: shown {process.shown}, committed {end}",
        )
        return self._hash()

    def live(self, duration: float, started: float = 0.0) -> None:
        """The part with faults; the observer starts after so many seconds."""
        self._at(0.0, self.world.elect)
        self._at(started, self._start)
        self._at(0.05, self._happen)
        self._run_until(duration)

    def _hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()

    # Time.

    def _at(self, time: float, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, event))

    def _run_until(self, end: float) -> None:
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._complete_parked()
        self.now = end

    def _note(self, text: str) -> None:
        self.trace.append(f"{self.now:9.4f} {text}")

    def _happen(self) -> None:
        if not self._calm:
            self.world.happen()
            self._at(self.now + self.rng.expovariate(50.0), self._happen)

    def _heal(self) -> None:
        self._calm = True
        away = self.rng.choice([0, *self.quorum.voters, self.process.remembered[1]])
        if away > 0 and self.process.settings.bootstrap == (self.quorum.voters[away].address,):
            away = 0  # who is told of one voter only cannot do without it
        self.world.heal(away)

    def _died(self, id: int) -> None:
        for delayed in [delayed for delayed in self._parked if delayed[4].id == id]:
            self._parked.remove(delayed)
            self._fail(delayed[0], delayed[1], FailureKind.CLOSED)

    # The observer's life.

    def _start(self) -> None:
        """A process starts, or its core starts again from what the disk holds."""
        self._life += 1
        self._open.clear()
        self._held.clear()
        self._rate.clear()
        self._durable = 0
        self._go(lambda: self.process.start(self.now))

    def _step(self, life: int, event: Event) -> list[Effect]:
        if life != self._life:
            return []
        return self._go(lambda: self.process.raft.step(event, self.now, 0))

    def _go(self, act: Callable[[], list[Effect]]) -> list[Effect]:
        """Act as the driver: effects on the disk in order, then the messages; the disk reports
        later that it is done.
        """
        effects = act()
        wrote = 0
        try:
            for effect in effects:
                if isinstance(effect, Send):
                    self._emit(effect)
                else:
                    self.process.perform(effect)
                    wrote = max(wrote, getattr(effect, "token", 0))
        except Crash:
            self._note("the observer is killed")
            self.process.log.lose_unflushed(self.rng)
            self._start()
            return effects
        except DiskFailed:
            self._life += 1
            self._at(self.now + 0.2, self._start)
            return effects
        self.process.check()
        self.process.check_shown()
        life = self._life
        if wrote:
            self._at(
                self.now + self._latency() * self.rng.choice((0.0, 1.0, 10.0)),
                lambda: self._synced(life, wrote),
            )
        self._arm()
        return effects

    def _synced(self, life: int, token: int) -> None:
        """The disk has everything up to ``token``, and says so."""
        if life != self._life:
            return
        self.process.log.flush()
        self._durable = max(self._durable, token)
        installed, self.process.installed = self.process.installed, None
        if installed is not None:
            self._step(life, installed)
        self._step(life, Durable(token))
        if life == self._life:
            ready = [held for held in self._held if held[0].after <= self._durable]
            self._held = [held for held in self._held if held[0].after > self._durable]
            for send, request, version in ready:
                self._send(send, request, version)

    def _arm(self) -> None:
        life, at = self._life, self.process.raft.deadline
        require(at > self.now, "a pause ends later than it begins")
        if at < math.inf:
            self._at(at, lambda: self._tick(life, at))

    def _tick(self, life: int, at: float) -> None:
        if life == self._life and self.process.raft.deadline <= at:
            self._step(life, Tick())

    def _emit(self, send: Send) -> None:
        voter = self._voter(send)
        offered = (
            voter.fetch_versions
            if send.api_key == FetchRequest.API_KEY
            else controller.VERSIONS[send.api_key]
        )
        version = min(offered[-1], send.versions[-1])
        request = type(send.request(version)).decode(send.request(version).encode(version), version)
        check_request(self, request)
        if send.after > self._durable:
            self._held.append((send, request, version))
        else:
            self._send(send, request, version)

    def _voter(self, send: Send) -> Voter:
        voter = next(
            (voter for voter in self.quorum.voters.values() if voter.address == send.address), None
        )
        require(voter is not None, f"{send.address} is no voter's address")
        assert voter is not None
        return voter

    def _send(self, send: Send, request: Message, version: int) -> None:
        self._rate.count(self.process, self.now)
        self._open.add(send.number)
        life, voter = self._life, self._voter(send)
        self._at(
            self.now + send.timeout_s, lambda: self._fail(life, send, FailureKind.TIMEOUT, 0.0)
        )
        self._note(f"-> {voter.id} {request_text(request, version)}")
        if isinstance(request, FetchRequest):
            asked = request.topics[0].partitions[0]
            behind = max(self.process.log.flushed_end, 1 if self.history else 0)
            require(asked.fetch_offset <= behind, "what a Fetch acknowledges is on disk")
        if not voter.reachable and not self._calm:
            self._fail(life, send, FailureKind.UNREACHABLE)
        elif not self._happens(self.faults.lose_request):
            self._at(
                self.now + self._latency(),
                lambda: self._arrive(life, send, request, version, voter),
            )

    def _arrive(self, life: int, send: Send, request: Message, version: int, voter: Voter) -> None:
        if not voter.up:
            self._fail(life, send, FailureKind.UNREACHABLE)
            return
        made = controller.answer(self.quorum, voter, request, version)
        if self._closing and isinstance(made, FetchSnapshotResponse) and made.error_code:
            self._fail(life, send, FailureKind.CLOSED)
            return
        if isinstance(request, FetchRequest) and controller.must_wait(voter, request, made, None):
            delayed = (life, send, request, version, voter, voter.high_watermark)
            self._parked.append(delayed)
            self._at(self.now + request.max_wait_ms / 1000, lambda: self._wake(delayed))
            return
        self._reply(life, send, made, version)

    def _complete_parked(self) -> None:
        for delayed in list(self._parked):
            _, _, request, version, voter, high_watermark = delayed
            made = controller.answer(self.quorum, voter, request, version)
            if not controller.must_wait(voter, request, made, high_watermark):
                self._wake(delayed)

    def _wake(self, delayed: tuple[int, Send, FetchRequest, int, Voter, int]) -> None:
        if delayed in self._parked:
            self._parked.remove(delayed)
            life, send, request, version, voter, _ = delayed
            self._reply(
                life, send, controller.answer(self.quorum, voter, request, version), version
            )

    def _reply(self, life: int, send: Send, made: Message, version: int) -> None:
        if self._happens(self.faults.lose_answer):
            return
        if (
            self._happens(self.faults.corrupt)
            and isinstance(made, FetchResponse)
            and made.responses
        ):
            data = made.responses[0].partitions[0]
            data.records = corrupted(bytes(data.records)) if data.records else data.records
        late = self.rng.random() * 4 if self._happens(self.faults.late_answer) else 0.0
        self._at(
            self.now + late + self._latency(), lambda: self._deliver(life, send, made, version)
        )
        if self._happens(self.faults.twice):
            self._at(
                self.now + self.rng.random() * 2, lambda: self._deliver(life, send, made, version)
            )

    def _deliver(self, life: int, send: Send, made: Message, version: int) -> None:
        """A response reaches the observer, be it late or for the second time."""
        self._end(life, send, Answered(send.number, made, version))

    def _fail(self, life: int, send: Send, kind: FailureKind, delay: float | None = None) -> None:
        failed = Failed(send.number, Failure(kind, f"{send.address}: {kind.value}"))
        self._at(
            self.now + (self._latency() if delay is None else delay),
            lambda: self._end(life, send, failed) if send.number in self._open else None,
        )

    def _end(self, life: int, send: Send, event: Answered | Failed) -> None:
        if life != self._life:
            return  # its connection went with the process
        was_open = send.number in self._open
        self._open.discard(send.number)
        effects = self._step(life, event)
        changed = [effect for effect in effects if isinstance(effect, DiskEffect | Advance)]
        require(was_open or not changed, "a late response has no effect")

    def _before_effect(self, effect: Effect) -> None:
        self._note(f"   {effect_text(effect)}")
        self.seen[effect.event if isinstance(effect, Report) else type(effect).__name__] += 1
        if isinstance(effect, DiskEffect | Advance) and self._happens(self.faults.crash_at_effect):
            raise Crash
        if isinstance(effect, DiskEffect) and self._happens(self.faults.disk_fails):
            self._note("   ... for which there is no room")
            raise DiskFailed("no space left on device")

    def _happens(self, probability: float) -> bool:
        return not self._calm and self.rng.random() < probability

    def _latency(self) -> float:
        return 0.0005 + self.rng.random() * 0.004


def replay_line(seed: int) -> str:
    """Return the command that repeats the run."""
    return f"python -m tests.gateway.quorum.observer.simulation {seed}"


class Result(NamedTuple):
    """The result of a seed: a hash of every event, and the number of each effect."""

    hash: str
    seen: Counter[str]


def run(seed: int, duration: float = 20.0) -> Result:
    """Run one seed. Raises Violation with the seed, the last events, and the command that repeats
    it.
    """
    simulation = Simulation(seed)
    try:
        return Result(simulation.run(duration), simulation.seen)
    except Exception as error:
        last = "\n".join(simulation.trace[-25:])
        raise Violation(
            f"seed {seed}: {type(error).__name__}: {error}\n{last}\nreplay: {replay_line(seed)}"
        ) from error


if __name__ == "__main__":
    chosen = Simulation(int(sys.argv[1]))
    try:
        print(chosen.run())
    finally:
        print("\n".join(chosen.trace))
