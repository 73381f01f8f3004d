"""Families of schedules: a script, the tweaks of what was drawn for it, and the registry.

A script is a generator: it acts on the world and yields how many seconds it waits.
``Scenario.play`` runs it and then heals the quorum. The scripts are in ``scenarios_*.py``; the
helpers below wait for a state of the quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.sim.healing import heal
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

Script = Callable[["World"], Iterator[float]]
Tweak = Callable[[Random, Shape, Faults], None]


class Scenario(NamedTuple):
    """A family of schedules.

    ``tweak`` changes the shape and faults that were drawn. ``noise`` false: no faults but those of
    the script. ``starts_within_s``: the time within which all nodes start. ``heals``: the schedule
    ends in healing.
    """

    name: str
    script: Script
    tweak: Tweak
    noise: bool
    starts_within_s: float
    heals: bool

    def prepare(self, random: Random, shape: Shape, faults: Faults) -> None:
        """Adapt the shape and the faults that were drawn for the swarm to this family."""
        if self.name != "swarm" and shape.upgrades:
            shape.upgrades = shape.auto_join = False
        if not self.noise or (self.name != "swarm" and random.random() < 0.5):
            quiet(faults)
        elif self.name != "swarm":
            soften(faults)
        self.tweak(random, shape, faults)
        shape.changes_voters = shape.changes_voters or faults.voter_changes > 0.0
        if (shape.dynamic and (shape.changes_voters or faults.wipes)) or (
            shape.upgrades and shape.changes_voters
        ):
            shape.non_electable = 0  # the last electable voter could be removed

    def play(self, world: World) -> Iterator[float]:
        """Run the script, then the healing."""
        yield from self.script(world)
        if self.heals:
            yield from heal(world)


SCENARIOS: Final[dict[str, Scenario]] = {}


def family(
    tweak: Tweak, *, noise: bool = True, starts_within_s: float = 0.3, heals: bool = True
) -> Callable[[Script], Script]:
    """Register a script as a family of schedules."""

    def register(script: Script) -> Script:
        SCENARIOS[script.__name__] = Scenario(
            script.__name__, script, tweak, noise, starts_within_s, heals
        )
        return script

    return register


def quiet(faults: Faults) -> None:
    """Remove all faults but those of the script."""
    for name in Faults.__slots__:
        if name != "latency":
            setattr(faults, name, 0.0)


def soften(faults: Faults) -> None:
    """Keep some noise of the network and crashes; remove the acts of the swarm."""
    for name in (
        "cuts",
        "pauses",
        "kills",
        "voter_changes",
        "forgeries",
        "handovers",
        "wipes",
        "wall_jumps",
        "upgrades",
    ):
        setattr(faults, name, 0.0)
    faults.lose, faults.late, faults.reset = (
        faults.lose * 0.3,
        faults.late * 0.5,
        faults.reset * 0.5,
    )


def sized(*voters: int, dynamic: bool | None = None, observers: int | None = None) -> Tweak:
    """A tweak to one of the given numbers of voters, all electable."""

    def tweak(random: Random, shape: Shape, faults: Faults) -> None:
        shape.voters, shape.non_electable, shape.foreign = random.choice(voters), 0, False
        if dynamic is not None:
            shape.dynamic, shape.auto_join = dynamic, False
        if observers is not None:
            shape.observers = observers

    return tweak


def with_faults(tweak: Tweak, **values: float) -> Tweak:
    """``tweak``, and then faults at the given rates."""

    def both(random: Random, shape: Shape, faults: Faults) -> None:
        tweak(random, shape, faults)
        for name, value in values.items():
            setattr(faults, name, value)

    return both


# --- waiting


def paused_until(
    world: World, holds: Callable[[], bool], at_most: float = 6.0, step: float = 0.02
) -> Iterator[float]:
    """Wait until ``holds()``, at most ``at_most`` seconds; check every ``step`` seconds."""
    end = world.now + at_most
    while not holds() and world.now < end:
        yield step


def other_leader(world: World, old: Node | None, step: float = 0.02) -> Iterator[float]:
    """Wait for a leader other than ``old``."""
    yield from paused_until(
        world, lambda: world.leader is not None and world.leader is not old, step=step
    )


def elected(world: World, *, but: Node | None = None, at_most: float = 8.0) -> Iterator[float]:
    """Wait for a leader other than ``but`` that has committed in its epoch."""

    def holds() -> bool:
        leader = world.leader
        return (
            leader is not None
            and leader is not but
            and leader.high_watermark > leader.own_epoch_offset
        )

    yield from paused_until(world, holds, at_most)


def busy(world: World, seconds: float) -> Iterator[float]:
    """Clients propose to the leader for ``seconds``."""
    end = world.now + seconds
    while world.now < end:
        world.propose(world.leader, world.random.choice((1, 1, 2)), world.random.choice((1, 2)))
        yield world.random.random() * 2.0 / world.shape.proposals
