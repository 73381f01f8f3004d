"""Every seeded bug is found: the simulation would notice what it looks for.

``kills.json`` says which schedule found each; where another core takes other turns, the bug is
looked for anew.
"""

from __future__ import annotations

import pytest

from tests.sim import mutants, power
from tests.sim.schedule import Failed, run

#: How many schedules a bug may take that the schedule of ``kills.json`` does not find any more.
_SCHEDULES_MAX = 2000


def test_there_are_as_many_bugs_as_are_written_down() -> None:
    assert set(power.known()) == set(mutants.MUTANTS)
    assert len(mutants.MUTANTS) >= 30


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_bug_is_found(name: str) -> None:
    kill = power.known()[name]
    with mutants.put_in(name):
        try:
            run(kill.seed, kill.family)
        except Failed as failed:
            power.require_bug(failed)
        else:
            assert power.find(name, _SCHEDULES_MAX), (
                f"{_SCHEDULES_MAX} schedules do not find it: {mutants.MUTANTS[name].sentence}"
            )
            return
    run(kill.seed, kill.family)  # it is the bug that the schedule fails for
