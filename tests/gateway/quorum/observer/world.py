"""Draws the life of a model quorum at random: elections, isolated leaders, resignations, crashes.

It serves the simulation of an observer. The controllers in it are a model and not the core, so that
a rule which the core gets wrong on both sides is found; the worlds of ``tests/sim`` and
``tests/gateway/quorum/world.py`` run the core on every node. It does not know observers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.gateway.quorum.observer.model import Quorum


@dataclass(frozen=True)
class Faults:
    """How often what goes wrong (probabilities, or events per second)."""

    lose_request: float
    lose_answer: float
    late_answer: float
    twice: float
    corrupt: float
    crash_at_effect: float
    disk_fails: float
    elections: float
    isolated: float
    voter_crashes: float
    resignations: float
    snapshots: float
    cleanings: float
    unreachable: float

    @classmethod
    def draw(cls, rng: random.Random) -> Faults:
        def some(most: float) -> float:
            return rng.choice((0.0, rng.random() * most))

        return cls(
            some(0.2),
            some(0.2),
            some(0.2),
            some(0.4),
            some(0.15),
            some(0.1),
            some(0.1),
            some(2.0),
            rng.random(),
            some(1.0),
            some(1.0),
            some(6.0),
            some(3.0),
            some(0.5),
        )


class World:
    """The events of ``quorum``. ``note`` is called for each; ``died`` when a voter's connections
    close.
    """

    def __init__(
        self,
        quorum: Quorum,
        faults: Faults,
        rng: random.Random,
        note: Callable[[str], None],
        died: Callable[[int], None],
    ) -> None:
        self.quorum = quorum
        self.faults = faults
        self.rng = rng
        self._note = note
        self._died = died

    def happen(self) -> None:
        """One random thing happens; what it is depends on the faults of this seed."""
        rng, faults, quorum = self.rng, self.faults, self.quorum
        happenings = [
            (8.0, self._append),
            (20.0, self._replicate),
            (1.0 + faults.elections, self._elect_sometimes),
            (faults.voter_crashes, self._crash_voter),
            (1.0, self._restart_voter),
            (faults.resignations, self._resign),
            (faults.snapshots, self._snapshot),
            (faults.cleanings, self._clean),
            (faults.unreachable, self._cut),
        ]
        weights = [weight for weight, _ in happenings]
        rng.choices([happening for _, happening in happenings], weights)[0]()
        if not any(voter.up for voter in quorum.voters.values()) and rng.random() < 0.2:
            self._restart_voter()

    def _append(self) -> None:
        leaders = [
            id for id, voter in self.quorum.voters.items() if voter.role == "leader" and voter.up
        ]
        if leaders:
            self.quorum.append(self.rng.choice(leaders), self.rng.randint(1, 3))

    def _replicate(self) -> None:
        follower, leader = self.rng.sample(sorted(self.quorum.voters), 2)
        self.quorum.replicate(follower, leader, self.rng.randint(0, 4))

    def _elect_sometimes(self) -> None:
        led = any(voter.role == "leader" and voter.up for voter in self.quorum.voters.values())
        if not led or self.rng.random() < 0.3 * self.faults.elections:
            self.elect()

    def elect(self) -> None:
        rng, voters = self.rng, self.quorum.voters
        ids = [id for id in voters if voters[id].up]
        rng.shuffle(ids)
        if (
            rng.random() < self.faults.isolated
        ):  # the old leader does not hear of it, and goes on for a while
            ids.sort(key=lambda id: voters[id].role == "leader")
        electors = ids[: rng.randint(self.quorum.majority, len(voters))]
        leader = self.quorum.elect(electors, [id for id in electors if rng.random() < 0.5])
        if leader is not None:
            self._note(
                f"voter {leader} leads epoch {voters[leader].epoch}, elected by {sorted(electors)}"
            )

    def _crash_voter(self) -> None:
        self._kill(self.rng.choice(sorted(self.quorum.voters)))

    def _kill(self, id: int) -> None:
        self._note(f"voter {id} dies")
        self.quorum.crash(id)
        self._died(id)

    def _restart_voter(self) -> None:
        down = [id for id, voter in self.quorum.voters.items() if not voter.up]
        if down:
            self.quorum.restart(self.rng.choice(down))

    def _resign(self) -> None:
        leaders = [id for id, voter in self.quorum.voters.items() if voter.role == "leader"]
        if leaders:
            self._note(f"voter {leaders[0]} resigns")
            self.quorum.resign(leaders[0])

    def _snapshot(self) -> None:
        self.quorum.snapshot(self.rng.choice(sorted(self.quorum.voters)), self.rng.randint(0, 60))

    def _clean(self) -> None:
        self.quorum.clean(self.rng.choice(sorted(self.quorum.voters)), self.rng.randint(1, 2))

    def _cut(self) -> None:
        voter = self.quorum.voters[self.rng.choice(sorted(self.quorum.voters))]
        voter.reachable = not voter.reachable

    def heal(self, away: int) -> None:
        """End all faults but one voter that may stay away; one leader, which every voter
        follows.
        """
        self._note(f"everything heals, but for voter {away}")
        ids = [id for id in self.quorum.voters if id != away]
        if away > 0:
            self._kill(away)
        for id in ids:
            self.quorum.voters[id].up = self.quorum.voters[id].reachable = True
        leader = self.quorum.elect(ids, ids)
        assert leader is not None
        for _ in range(3):
            self.quorum.append(leader, 1)
            for id in ids:
                for _ in range(2):
                    self.quorum.replicate(id, leader, 1_000_000)
