"""Bugs that are put into the brokers' cores are found, so the simulation does notice such faults.

``kills.json`` names the schedule that found each. Where that schedule no longer fails, because a
core has changed, the bug is searched for again. Bugs that no schedule finds make a unit test fail.
"""

from __future__ import annotations

import pytest

from tests.sim.brokers.mutants import MUTANTS
from tests.sim.brokers.power import KILLS
from tests.sim.brokers.unit_tests import UNIT_TESTS

#: The most schedules for a bug that the schedule of ``kills.json`` no longer finds.
_SCHEDULES_MAX = 1000


def test_sixty_bugs_are_found_or_more() -> None:
    found = set(KILLS.known())
    assert found <= set(MUTANTS)
    assert len(found) >= 60


@pytest.mark.parametrize("name", KILLS.known())
def test_bug_makes_its_schedule_fail(name: str) -> None:
    KILLS.check(name, _SCHEDULES_MAX)


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_bug_makes_its_unit_test_fail(name: str) -> None:
    UNIT_TESTS[name].run()
    with MUTANTS.put_in(name), pytest.raises((AssertionError, pytest.fail.Exception)):
        UNIT_TESTS[name].run()
