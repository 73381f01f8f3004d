"""Every seeded bug is found, so the simulation does notice such faults.

``kills.json`` names the schedule that found each. Where that schedule no longer fails, because the
core has changed, the bug is searched for again.
"""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS
from tests.sim.power import KILLS

#: The most schedules for a bug that the schedule of ``kills.json`` no longer finds.
_SCHEDULES_MAX = 2000


def test_kills_json_names_every_seeded_bug() -> None:
    assert set(KILLS.known()) == set(MUTANTS)
    assert len(MUTANTS) >= 80


@pytest.mark.parametrize("name", MUTANTS)
def test_seeded_bug_makes_its_schedule_fail(name: str) -> None:
    KILLS.check(name, _SCHEDULES_MAX)
