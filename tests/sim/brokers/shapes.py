"""Draws a schedule's cluster and its faults from the seed. Each kind of fault is in about half of
the schedules, because all kinds at once would hide the effects of a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

from tests.sim.swarm import draw_rate


@dataclass(slots=True)
class Faults:
    """Probabilities of one message or sync, and rates per simulated second."""

    lose: float = 0.0
    twice: float = 0.0  #: never: the connections are TCP's
    answer_twice: float = 0.0  #: never
    late: float = 0.0
    reset: float = 0.0
    latency: float = 0.004
    slow_disk: float = 0.0
    cuts: float = 0.0
    pauses: float = 0.0
    kills: float = 0.0
    power_losses: float = 0.0
    failovers: float = 0.0
    fencings: float = 0.0
    restarts: float = 0.0
    reassignments: float = 0.0
    elections: float = 0.0
    deletions: float = 0.0
    wall_jumps: float = 0.0
    clock_spread: float = 0.0  #: clocks run at 1/(1 + s) to 1 + s times the true rate

    @classmethod
    def draw(cls, random: Random) -> Faults:
        """Choose the kinds and their rates."""

        some = partial(draw_rate, random)
        return cls(
            lose=some(0.1),
            late=some(0.1),
            reset=some(0.1),
            latency=random.choice((0.002, 0.004, 0.02, 0.1)),
            slow_disk=some(0.3),
            cuts=some(0.7),
            pauses=some(0.3),
            kills=some(0.6),
            power_losses=some(0.5, 0.4),
            failovers=some(0.4),
            fencings=some(0.3),
            restarts=some(0.3),
            reassignments=some(0.4),
            elections=some(0.5),
            deletions=some(0.3, 0.3),
            wall_jumps=some(0.2, 0.2),
            clock_spread=some(0.3, 0.3),
        )


@dataclass(slots=True)
class Shape:
    """The cluster: brokers, controllers, one topic with its configuration, and the clients."""

    brokers: int = 3
    controllers: int = 1
    partitions: int = 1
    replicas: int = 3
    min_isr: int = 2
    unclean: bool = False  #: ``unclean.leader.election.enable``
    elr: bool = True  #: eligible leader replicas (KIP-966)
    session_s: float = 2.0
    lag_s: float = 1.5
    produce_s: float = 1.5
    batches_per_s: float = 3.0
    idempotent: int = 1  #: producers of each kind, for each partition
    transactional: int = 0
    unsure: int = 0  #: with acks 0 or 1, not idempotent
    consumers: int = 1
    duration: float = 12.0

    @classmethod
    def draw(cls, random: Random) -> Shape:
        """Choose mostly small clusters: three brokers reach nearly every state."""
        brokers = random.choice((1, 2, 3, 3, 3, 3, 3, 4, 4, 5))
        replicas = min(brokers, random.choice((2, 3, 3, 3)))
        return cls(
            brokers=brokers,
            controllers=random.choice((1, 1, 3)),
            partitions=random.choice((1, 1, 2)),
            replicas=replicas,
            min_isr=min(replicas, random.choice((1, 2, 2, 2, 3))),
            unclean=random.random() < 0.15,
            elr=random.random() < 0.5,
            lag_s=random.choice((0.8, 1.5, 1.5, 3.0)),
            batches_per_s=random.choice((2.0, 4.0, 8.0)),
            idempotent=random.choice((1, 1, 2)),
            transactional=random.choice((0, 0, 1, 2)),
            unsure=random.choice((0, 0, 1)),
            consumers=random.choice((1, 2)),
            duration=random.uniform(5.0, 12.0),
        )
