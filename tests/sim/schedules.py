"""The schedules of simulated quorums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.sim.chance import Fault
from tests.sim.scenario import SCENARIOS
from tests.sim.scenarios import scenario_of
from tests.sim.schedule import Schedules
from tests.sim.world import World


def _world_of(
    seed: int,
    family: str | None = None,
    *,
    only: Sequence[Fault] | None = None,
    noting: bool = False,
) -> World:
    scenario = SCENARIOS[family] if family else scenario_of(seed)
    return World(seed, scenario, only=only, noting=noting)


QUORUMS: Final = Schedules("tests.sim", SCENARIOS, _world_of)
