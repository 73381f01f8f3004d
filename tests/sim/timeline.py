"""Holds the time of a schedule, its trace, and the acts on processes and links that every simulated
cluster has.

``World`` adds a quorum to it, ``brokers.BrokerWorld`` brokers and controllers.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from tests.sim import chance
from tests.sim.chance import Chance, Fault
from tests.sim.history import Violation
from tests.sim.outcome import Outcome

#: A schedule with more events is no short one: something spins.
EVENTS_MAX = 60_000


class Process(Protocol):
    """A process that a schedule kills, suspends and cuts off."""

    id: int
    place: int
    incarnation: int
    paused_until: float
    removed: bool
    stopped: str

    @property
    def up(self) -> bool: ...
    def start(self) -> None: ...
    def halt(self, why: str) -> None: ...


class Links(Protocol):
    """The part of a network that acts change."""

    cut: set[tuple[int, int]]


class Checker(Protocol):
    """The part of a checker that the outcome reports."""

    @property
    def acked(self) -> int: ...
    @property
    def leaders(self) -> int: ...


_Process = TypeVar("_Process", bound=Process)


class Timeline(Generic[_Process]):
    """``only``: the faults that may happen, None for all. ``noting``: keep a trace in ``notes``.

    A subclass sets ``nodes``, ``network``, ``checker`` and ``faults``.
    """

    nodes: list[_Process]
    network: Links
    checker: Checker
    faults: Any

    def __init__(
        self, seed: int, *, only: Collection[Fault] | None = None, noting: bool = False
    ) -> None:
        self.seed, self.noting = seed, noting
        self.random = Random(seed)
        self.chance = Chance(seed, only)
        self.now = 0.0
        self.recovery_s = -1.0
        self.events = 0
        self.trace: list[tuple[Any, ...]] = []
        self.notes: list[str] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._acts = itertools.count()
        self._over = False

    @property
    def slow_disk(self) -> float:
        """The probability of a slow sync."""
        return float(self.faults.slow_disk)

    # --- time

    def outcome_of(self, play: Iterator[float]) -> Outcome:
        """Play the scenario to its end."""
        self.play(play)
        hashed = self.run_events()
        checker, taken = self.checker, self.chance.taken
        return Outcome(
            self.events, hashed, checker.acked, checker.leaders, self.recovery_s, len(taken)
        )

    def run_events(self) -> str:
        """Call everything that is scheduled until the scenario is over; return the hash of the
        trace.
        """
        while self._heap and not self._over:
            if self.events > EVENTS_MAX:
                raise Violation(f"17: {self.events} events in {self.now:.1f} simulated s")
            self.now, _, happen = heapq.heappop(self._heap)
            happen()
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()

    def at(self, time: float, happen: Callable[[], None]) -> None:
        """Call ``happen`` at ``time``, after the calls that are scheduled for that time already."""
        heapq.heappush(self._heap, (time, next(self._order), happen))

    def play(self, play: Iterator[float]) -> None:
        """Continue the scenario, which yields the seconds until its next act."""
        try:
            wait = next(play)
        except StopIteration:
            self._over = True
            return
        self.at(self.now + wait, lambda: self.play(play))

    def note(self, text: str, *values: object) -> None:
        if self.noting:
            self.notes.append(f"{self.now:9.4f} {text % values}")

    def flush_s(self, node: _Process) -> float:
        """The time of the disk's next sync, s."""
        if self.chance.happens(chance.SLOW_DISK, node.place, -1, self.slow_disk):
            return self.chance.number(-3, node.place, node.incarnation, self.events)
        return 0.001 + 0.003 * self.chance.number(-3, node.place, node.incarnation, self.events)

    # --- acts

    def may_act(self, text: str, *values: object) -> bool:
        """Whether to do the next act of the scenario: a reduced schedule leaves some out."""
        if not self.chance.calm and not self.chance.acts(next(self._acts)):
            return False
        self.note("** " + text, *values)
        return True

    def restart(self, node: _Process) -> None:
        if not node.up and not node.removed and not node.stopped:
            node.start()

    def crash(self, node: _Process, why: str, for_s: float | None = None) -> None:
        """Kill a process; it restarts after ``for_s``, by default at once or late at random."""
        node.halt(why)
        if for_s is None:
            drawn = self.chance.number(-4, node.place, node.incarnation, 0)
            for_s = 0.01 if drawn < 0.4 else 6.0 * (drawn - 0.4)
        self.at(self.now + for_s, lambda: self.restart(node))

    def pause(self, node: _Process, for_s: float) -> None:
        """Suspend a process, as SIGSTOP does."""
        if self.may_act("node %d is paused for %.2f s", node.id, for_s):
            node.paused_until = max(node.paused_until, self.now + for_s)

    def kill(self, node: _Process, for_s: float | None = None) -> None:
        if self.may_act("node %d is to be killed", node.id):
            self.crash(node, "by the scenario", for_s)

    def cut(self, a: _Process, b: _Process, *, both: bool = True) -> None:
        """Cut the link from ``a`` to ``b``, or in both directions."""
        if self.may_act("cut from %d to %d%s", a.id, b.id, " and back" if both else ""):
            self.network.cut.add((a.place, b.place))
            if both:
                self.network.cut.add((b.place, a.place))

    def isolate(self, nodes: Collection[_Process], *, but: Collection[_Process] = ()) -> None:
        """Cut the links between ``nodes`` and all others except ``but``."""
        if not self.may_act(
            "cut off %s, but not from %s", [node.id for node in nodes], [node.id for node in but]
        ):
            return
        for a in nodes:
            for b in self.nodes:
                if b not in nodes and b not in but:
                    self.network.cut |= {(a.place, b.place), (b.place, a.place)}

    def mend_between(self, nodes: Collection[_Process]) -> None:
        """Restore the links between ``nodes``."""
        if self.may_act("mend the links between %s", [node.id for node in nodes]):
            self.network.cut -= {(a.place, b.place) for a in nodes for b in nodes}

    def mend(self, node: _Process | None = None) -> None:
        """Restore all links of ``node``, or of all nodes."""
        if self.may_act("mend the links of %s", "all" if node is None else node.id):
            self.network.cut = {
                link for link in self.network.cut if node is not None and node.place not in link
            }


_World = TypeVar("_World")


def do_one(
    world: _World, random: Random, table: Sequence[tuple[float, Callable[[_World, Random], None]]]
) -> None:
    """Do one of the acts of ``table``, chosen by their rates."""
    at = random.random() * sum(rate for rate, _ in table)
    salt = random.getrandbits(64)
    for rate, act in table:
        at -= rate
        if at < 0.0:
            # A separate generator: the draws of one act do not change the next act.
            act(world, Random(salt))
            return
