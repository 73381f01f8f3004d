"""The schedules of simulated brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.sim.brokers.families import FAMILIES, family_of
from tests.sim.brokers.world import BrokerWorld
from tests.sim.chance import Fault
from tests.sim.schedule import Schedules


def _world_of(
    seed: int,
    family: str | None = None,
    *,
    only: Sequence[Fault] | None = None,
    noting: bool = False,
) -> BrokerWorld:
    chosen = FAMILIES[family] if family else family_of(seed)
    return BrokerWorld(seed, chosen, only=only, noting=noting)


BROKERS: Final = Schedules("tests.sim.brokers", FAMILIES, _world_of)
