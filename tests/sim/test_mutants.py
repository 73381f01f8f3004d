"""Every seeded bug is found, so the simulation does notice such faults.

``kills.json`` names the schedule that found each. Where that schedule no longer fails, because the
core has changed, the bug is searched for again.
"""

from __future__ import annotations

import pytest

from tests.sim import mutants, power
from tests.sim.kills import require_bug
from tests.sim.schedule import Failed, run

#: The most schedules for a bug that the schedule of ``kills.json`` no longer finds.
_SCHEDULES_MAX = 2000


def test_kills_json_names_every_seeded_bug() -> None:
    assert set(power.KILLS.known()) == set(mutants.MUTANTS)
    assert len(mutants.MUTANTS) >= 80


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_seeded_bug_makes_its_schedule_fail(name: str) -> None:
    kill = power.KILLS.known()[name]
    with mutants.put_in(name):
        try:
            run(kill.seed, kill.family)
        except Failed as failed:
            require_bug(failed)
        else:
            assert power.KILLS.find(name, _SCHEDULES_MAX), (
                f"{_SCHEDULES_MAX} schedules do not find it: {mutants.MUTANTS[name].sentence}"
            )
            return
    run(kill.seed, kill.family)  # without the bug the schedule succeeds
