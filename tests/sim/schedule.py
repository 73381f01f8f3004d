"""Runs schedules by their seeds, and reduces failing ones to fewer faults.

``Schedules`` does so for one kind of simulation: ``tests.sim.schedules`` has those of quorums,
``tests.sim.brokers.schedules`` those of brokers.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.sim.chance import Chance, Fault
from tests.sim.history import Violation
from tests.sim.outcome import Outcome

_ROOT: Final = Path(__file__).resolve().parent.parent.parent


class ScheduledScenario(Protocol):
    """A family of schedules."""

    @property
    def name(self) -> str:
        """Name of the scenario that a schedule repeats."""


class ScheduledWorld(Protocol):
    """A simulated cluster that runs one schedule."""

    notes: list[str]
    chance: Chance

    @property
    def scenario(self) -> ScheduledScenario: ...
    def run(self) -> Outcome: ...


class Failed(Exception):
    """A schedule that broke an invariant: ``invariant`` is its sentence; the text adds the command
    that replays it.
    """

    def __init__(self, seed: int, family: str, invariant: str, replay: str) -> None:
        super().__init__(f"{invariant}\nreplay: {replay}")
        self.seed, self.family, self.invariant = seed, family, invariant


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


class Schedules:
    """The schedules of one kind of simulation.

    ``python -m MODULE`` replays them, and prints the tally of many. ``world_of`` makes the world of
    a seed, in a family of ``families`` or, for None, in the family that the seed selects; its
    keywords are ``only`` and ``noting`` (see ``tests.sim.timeline.Timeline``).
    """

    def __init__(
        self, module: str, families: Mapping[str, Any], world_of: Callable[..., ScheduledWorld]
    ) -> None:
        self.module, self.families, self.world_of = module, families, world_of

    def replay_line(self, seed: int, family: str) -> str:
        """The command that replays the schedule."""
        return f"python -m {self.module} {seed} --family {family}"

    def run(self, seed: int, family: str | None = None) -> Outcome:
        """Run one schedule. Raises Failed for a violation and for an exception of a core."""
        world = self.world_of(seed, family)
        name = world.scenario.name
        try:
            return world.run()
        except Violation as violation:
            invariant, cause = str(violation), violation
            raise Failed(seed, name, invariant, self.replay_line(seed, name)) from cause
        except Exception as error:
            invariant = f"0: {type(error).__name__}: {error}"
            raise Failed(seed, name, invariant, self.replay_line(seed, name)) from error

    def run_many(self, seeds: Iterable[int], family: str | None = None) -> Tally:
        """Run schedules one after the other. Raises Failed at the first that fails."""
        tally, begun = Tally(), time.perf_counter()
        for seed in seeds:
            tally.add(self.run(seed, family))
        tally.seconds = time.perf_counter() - begun
        return tally

    def run_beside(self, count: int) -> Tally:
        """Run the schedules of the first ``count`` seeds, with a process for each processor.

        Raises AssertionError with what a process says of a schedule that failed.
        """
        processes = min(count, os.cpu_count() or 1)
        bounds = [count * number // processes for number in range(processes + 1)]
        running = [
            subprocess.Popen(
                [sys.executable, "-m", self.module, f"{first}-{end - 1}", "--json"],
                cwd=_ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for first, end in itertools.pairwise(bounds)
        ]
        done = [process.communicate() for process in running]
        for process, (output, errors) in zip(running, done, strict=True):
            assert process.returncode == 0, f"{output}{errors}"[-4000:]
        return Tally.sum(Tally.of_json(output) for output, _ in done)

    def shrink(
        self,
        seed: int,
        family: str | None,
        report: Callable[[str], None] = lambda _text: None,
    ) -> list[Fault]:
        """Find few faults with which the schedule still breaks the same invariant (delta
        debugging).
        """
        wanted, faults = self._broken(seed, family, None)
        size = max(1, len(faults) // 2)
        while wanted and faults:
            smaller = False
            for begin in range(0, len(faults), size):
                without = faults[:begin] + faults[begin + size :]
                found, taken = self._broken(seed, family, without)
                if found == wanted:
                    faults, smaller = [fault for fault in without if fault in set(taken)], True
                    report(f"{len(faults)} faults")
                    break
            if not smaller:
                if size == 1:
                    break
                size = max(1, size // 2)
        return faults

    def _broken(
        self, seed: int, family: str | None, only: Sequence[Fault] | None
    ) -> tuple[str, list[Fault]]:
        """The number of the invariant that breaks, "" for none, and the faults that happened."""
        world = self.world_of(seed, family, only=only)
        try:
            world.run()
        except Violation as violation:
            return str(violation).split(":")[0], world.chance.taken
        except Exception:
            return "0", world.chance.taken
        return "", world.chance.taken


def corpus(path: Path) -> Iterator[tuple[int, str]]:
    """(seed, family) of each schedule of a file of schedules that failed once."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            seed, family, *_ = line.split()
            yield int(seed), family
