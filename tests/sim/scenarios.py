"""Chooses a schedule's family by its seed: half are random (``swarm``), half follow a script about
an incident, with some noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Final

from tests.sim import acts
from tests.sim import scenarios_elections as scenarios_elections  # each registers its families
from tests.sim import scenarios_leaders as scenarios_leaders
from tests.sim import scenarios_relays as scenarios_relays
from tests.sim import scenarios_voters as scenarios_voters
from tests.sim.scenario import SCENARIOS, Scenario, family
from tests.sim.swarm import Faults, Shape

if TYPE_CHECKING:
    from tests.sim.world import World


def _as_drawn(_random: Random, _shape: Shape, _faults: Faults) -> None:
    """The swarm keeps what was drawn."""


@family(_as_drawn, starts_within_s=1.0)
def swarm(world: World) -> Iterator[float]:
    """All acts and faults at random."""
    random, rate = Random(world.seed + 1), acts.acts_per_second(world)
    while world.now < world.shape.duration:
        yield random.expovariate(rate)
        acts.random_act(world, random)


#: The families of scripts. Seeds in ``corpus.txt`` and ``kills.json`` depend on the order.
DIRECTED: Final = (
    "figure8",
    "back_to_back",
    "minority_tail",
    "crash_after_vote",
    "unflushed_tail",
    "epochs_apart",
    "parked_fetches",
    "paused_leader",
    "lone_voter",
    "equal_timers",
    "leader_removed",
    "snapshot_install",
    "voters_change_apart",
    "changes_collide",
    "changes_in_a_row",
    "cold_start",
    "disk_replaced",
    "forged",
    "last_epoch",
    "handed_over",
    "late_messages",
    "upgraded",
)
#: Of ten schedules so many are of the swarm; the others are of the directed families in turn.
_SWARM_OF_TEN: Final = 5
#: Of twenty, those of these families, which would be of the swarm.
_OF_TWENTY: Final = {3: "relays", 13: "images_lack"}


def scenario_of(seed: int) -> Scenario:
    """The family of a seed."""
    if seed % 20 in _OF_TWENTY:
        return SCENARIOS[_OF_TWENTY[seed % 20]]
    if seed % 10 < _SWARM_OF_TEN:
        return SCENARIOS["swarm"]
    return SCENARIOS[
        DIRECTED[(seed // 10 * (10 - _SWARM_OF_TEN) + seed % 10 - _SWARM_OF_TEN) % len(DIRECTED)]
    ]
