"""Runs schedules by their seeds, and reduces failing ones to fewer faults."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.sim.chance import Fault
from tests.sim.history import Violation
from tests.sim.outcome import Outcome
from tests.sim.scenario import SCENARIOS
from tests.sim.scenarios import scenario_of
from tests.sim.world import World


class Failed(Exception):
    """A schedule that broke an invariant: ``invariant`` is its sentence; the text adds the command
    that replays it.
    """

    def __init__(self, seed: int, family: str, invariant: str, replay: str) -> None:
        super().__init__(f"{invariant}\nreplay: {replay}")
        self.seed, self.family, self.invariant = seed, family, invariant


def replay_line(seed: int, family: str) -> str:
    """The command that replays the schedule."""
    return f"python -m tests.sim {seed} --family {family}"


def world_of(
    seed: int,
    family: str | None = None,
    *,
    only: Sequence[Fault] | None = None,
    noting: bool = False,
) -> World:
    """The world of a seed, in ``family`` or else in the family that the seed selects."""
    return World(seed, SCENARIOS[family] if family else scenario_of(seed), only=only, noting=noting)


def run(seed: int, family: str | None = None) -> Outcome:
    """Run one schedule. Raises Failed for a violation and for an exception of the core."""
    world = world_of(seed, family)
    name = world.scenario.name
    try:
        return world.run()
    except Violation as violation:
        raise Failed(seed, name, str(violation), replay_line(seed, name)) from violation
    except Exception as error:
        what = f"0: {type(error).__name__}: {error}"
        raise Failed(seed, name, what, replay_line(seed, name)) from error


@dataclass
class Tally:
    """Sums over many schedules; ``recoveries`` are s from healing to a commit."""

    schedules: int = 0
    events: int = 0
    acked: int = 0
    leaders: int = 0
    seconds: float = 0.0
    recoveries: list[float] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.schedules += 1
        self.events += outcome.events
        self.acked += outcome.acked
        self.leaders += outcome.leaders
        if outcome.recovery_s >= 0.0:
            self.recoveries.append(outcome.recovery_s)

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Tally:
        return cls(**json.loads(text))

    @classmethod
    def sum(cls, parts: Iterable[Tally]) -> Tally:
        """The tally of processes that ran side by side: the longest time counts."""
        whole = cls()
        for part in parts:
            whole.schedules += part.schedules
            whole.events += part.events
            whole.acked += part.acked
            whole.leaders += part.leaders
            whole.seconds = max(whole.seconds, part.seconds)
            whole.recoveries += part.recoveries
        return whole

    def recovery(self, share: float) -> float:
        """The time from healing to a commit, s, that ``share`` of the schedules did not exceed."""
        ordered = sorted(self.recoveries)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0

    def __str__(self) -> str:
        per_second = self.events / self.seconds if self.seconds else 0.0
        return (
            f"{self.schedules} schedules, {self.events} events ({per_second:.0f}/s), "
            f"{self.leaders} leaders, {self.acked} proposals acknowledged, from healing to a "
            "commit "
            f"p50 {self.recovery(0.5):.2f} s, p99 {self.recovery(0.99):.2f} s"
        )


def run_many(seeds: Iterable[int], family: str | None = None) -> Tally:
    """Run schedules one after the other. Raises Failed at the first that fails."""
    tally, begun = Tally(), time.perf_counter()
    for seed in seeds:
        tally.add(run(seed, family))
    tally.seconds = time.perf_counter() - begun
    return tally


def shrink(
    seed: int,
    family: str | None,
    report: Callable[[str], None] = lambda _text: None,
    world_of: Callable[..., Any] = world_of,
) -> list[Fault]:
    """Find few faults with which the schedule still breaks the same invariant (delta debugging).
    ``world_of`` makes the world of a schedule.
    """

    def number(only: Sequence[Fault] | None) -> tuple[str, list[Fault]]:
        world = world_of(seed, family, only=only)
        try:
            world.run()
        except Exception as error:
            return (
                str(error).split(":")[0] if isinstance(error, Violation) else "0"
            ), world.chance.taken
        return "", world.chance.taken

    wanted, faults = number(None)
    size = max(1, len(faults) // 2)
    while wanted and faults:
        smaller = False
        for begin in range(0, len(faults), size):
            without = faults[:begin] + faults[begin + size :]
            found, taken = number(without)
            if found == wanted:
                faults, smaller = [fault for fault in without if fault in set(taken)], True
                report(f"{len(faults)} faults")
                break
        if not smaller:
            if size == 1:
                break
            size = max(1, size // 2)
    return faults
