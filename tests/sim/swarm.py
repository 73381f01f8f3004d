"""Draws a schedule's quorum and its faults from the seed: some kinds of faults, each at a random
rate.

Each kind is in about half of the schedules only, because all kinds at once would hide the effects
of a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random


def draw_rate(random: Random, most: float, chance: float = 0.5) -> float:
    """The rate of a kind of fault: 0, or with this chance one up to ``most``, mostly small."""
    value = random.random() ** 2 * most
    return value if random.random() < chance else 0.0


@dataclass(slots=True)
class Faults:
    """Probabilities of one message, effect or flush, and rates per simulated second."""

    lose: float = 0.0
    twice: float = 0.0
    answer_twice: float = 0.0
    late: float = 0.0
    reset: float = 0.0
    corrupt: float = 0.0
    latency: float = 0.004
    #: before each effect; ten times that while a write is on its way to the disk
    crash: float = 0.0
    slow_disk: float = 0.0
    cuts: float = 0.0
    pauses: float = 0.0
    kills: float = 0.0
    snapshots: float = 0.0
    voter_changes: float = 0.0
    forgeries: float = 0.0
    handovers: float = 0.0
    wipes: float = 0.0
    wall_jumps: float = 0.0
    upgrades: float = 0.0
    clock_spread: float = 0.0  #: clocks run at 1/(1 + s) to 1 + s times the true rate

    @classmethod
    def draw(cls, random: Random) -> Faults:
        """Choose the kinds and their rates."""

        some = partial(draw_rate, random)
        return cls(
            lose=some(0.3),
            twice=some(0.5),
            answer_twice=some(0.5),
            late=some(0.2),
            reset=some(0.2),
            corrupt=some(0.1, 0.2),
            latency=random.choice((0.002, 0.004, 0.02, 0.2)),
            crash=some(0.004, 0.6),
            slow_disk=some(0.3),
            cuts=some(1.0),
            pauses=some(0.3),
            kills=some(0.4),
            snapshots=some(1.0),
            voter_changes=some(0.6),
            forgeries=some(1.0, 0.3),
            handovers=some(0.2, 0.3),
            wipes=some(0.1, 0.3),
            wall_jumps=some(0.2, 0.2),
            clock_spread=some(1.0, 0.4),
        )


@dataclass(slots=True)
class Shape:
    """The quorum: the numbers of voters, observers and non-electable voters, and whether the voters
    are in the log (KIP-853).
    """

    voters: int = 3
    observers: int = 0
    #: observers that follow other observers, by level: those of the first follow the voters
    relays: tuple[int, ...] = ()
    non_electable: int = 0
    dynamic: bool = False
    auto_join: bool = False
    changes_voters: bool = False
    #: static voters are to be put into the log (kraft.version 0 to 1)
    upgrades: bool = False
    foreign: bool = False  #: a node of another cluster sends requests to this one
    codec: bool = False  #: every message goes through the codec
    old_versions: bool = False  #: peers speak versions drawn at random
    proposals: float = 4.0  #: per second
    duration: float = 12.0
    equal_timers: bool = False
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20

    @classmethod
    def draw(cls, random: Random) -> Shape:
        """Choose mostly small quorums: three voters reach nearly every state."""
        voters = random.choice((1, 2, 3, 3, 3, 3, 3, 3, 4, 5, 5, 7))
        dynamic = random.random() < 0.5
        return cls(
            voters=voters,
            observers=random.choice((0, 0, 0, 1, 1, 2, 3)),
            non_electable=random.choice((0, 0, 0, 1)) if voters >= 3 else 0,
            dynamic=dynamic,
            auto_join=dynamic and random.random() < 0.3,
            foreign=random.random() < 0.1,
            codec=random.random() < 0.2,
            old_versions=random.random() < 0.15,
            proposals=random.choice((1.0, 4.0, 10.0)),
            duration=random.uniform(5.0, 12.0),
            fetch_max_bytes=random.choice((1, 300, 1 << 20)),
            snapshot_max_bytes=random.choice((7, 40, 1 << 20)),
        )


def draw_upgrades(seed: int, shape: Shape, faults: Faults) -> None:
    """Upgrade some of the quorums with static voters. The random numbers are separate, so that the
    other draws of a seed stay the same.
    """
    random = Random(seed ^ 0x5EED)
    if not shape.dynamic and random.random() < 0.4:
        shape.upgrades, faults.upgrades = True, random.choice((0.2, 0.5, 1.0))
        shape.auto_join = random.random() < 0.2
