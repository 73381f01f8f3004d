"""Bugs that are put into the brokers' cores are found, so the simulation does notice such faults.

``kills.json`` names the schedule that found each. Where that schedule no longer fails, because a
core has changed, the bug is searched for again. Bugs that no schedule finds make a unit test fail.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.brokers.mutants import MUTANTS
from tests.sim.brokers.power import KILLS
from tests.sim.brokers.unit_tests import UNIT_TESTS

#: The most schedules for a bug that the schedule of ``kills.json`` no longer finds.
_SCHEDULES_MAX = 1000


def test_every_bug_is_found_and_sixty_or_more_by_schedules() -> None:
    assert {*KILLS.known(), *UNIT_TESTS} == set(MUTANTS)
    assert len(KILLS.known()) >= 60


@pytest.mark.parametrize("name", KILLS.known())
def test_bug_makes_its_schedule_fail(name: str) -> None:
    KILLS.check(name, _SCHEDULES_MAX)


@pytest.mark.parametrize("name", UNIT_TESTS)
def test_bug_makes_its_unit_test_fail(name: str, tmp_path: Path) -> None:
    UNIT_TESTS[name].run(tmp_path / "without")
    with MUTANTS.put_in(name), pytest.raises((AssertionError, pytest.fail.Exception)):
        UNIT_TESTS[name].run(tmp_path / "with")
