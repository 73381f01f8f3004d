"""Runs schedules of brokers by their seeds."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tests.sim.brokers.families import FAMILIES, family_of
from tests.sim.brokers.world import BrokerWorld
from tests.sim.history import Violation
from tests.sim.schedule import Failed, Tally

if TYPE_CHECKING:
    from tests.sim.chance import Fault
    from tests.sim.outcome import Outcome


def replay_line(seed: int, family: str) -> str:
    """The command that replays the schedule."""
    return f"python -m tests.sim.brokers {seed} --family {family}"


def world_of(
    seed: int,
    family: str | None = None,
    *,
    only: Sequence[Fault] | None = None,
    noting: bool = False,
) -> BrokerWorld:
    """The world of a seed, in ``family`` or else in the family that the seed selects."""
    chosen = FAMILIES[family] if family else family_of(seed)
    return BrokerWorld(seed, chosen, only=only, noting=noting)


def run(seed: int, family: str | None = None) -> Outcome:
    """Run one schedule. Raises Failed for a violation and for an exception of a core."""
    world = world_of(seed, family)
    name = world.scenario.name
    try:
        return world.run()
    except Violation as violation:
        raise Failed(seed, name, str(violation), replay_line(seed, name)) from violation
    except Exception as error:
        what = f"0: {type(error).__name__}: {error}"
        raise Failed(seed, name, what, replay_line(seed, name)) from error


def run_many(seeds: Iterable[int], family: str | None = None) -> Tally:
    """Run schedules one after the other. Raises Failed at the first that fails."""
    tally, begun = Tally(), time.perf_counter()
    for seed in seeds:
        tally.add(run(seed, family))
    tally.seconds = time.perf_counter() - begun
    return tally
