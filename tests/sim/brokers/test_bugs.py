"""Bugs that are put into the brokers' cores are found, so the simulation does notice such faults.

``kills.json`` names the schedule that found each. Where that schedule no longer fails, because a
core has changed, the bug is searched for again.
"""

from __future__ import annotations

import functools

import pytest

from tests.sim.brokers.mutants import MUTANTS, put_in
from tests.sim.brokers.power import KILLS
from tests.sim.brokers.schedule import run
from tests.sim.kills import require_bug
from tests.sim.schedule import Failed

#: The most schedules for a bug that the schedule of ``kills.json`` no longer finds.
_SCHEDULES_MAX = 1000


@functools.cache
def _run_once(seed: int, family: str) -> None:
    run(seed, family)


def test_sixty_bugs_are_found_or_more() -> None:
    found = set(KILLS.known())
    assert found <= set(MUTANTS)
    assert len(found) >= 60


@pytest.mark.parametrize("name", KILLS.known())
def test_bug_makes_its_schedule_fail(name: str) -> None:
    kill = KILLS.known()[name]
    with put_in(name):
        try:
            run(kill.seed, kill.family)
        except Failed as failed:
            require_bug(failed)
        else:
            assert KILLS.find(name, _SCHEDULES_MAX), (
                f"{_SCHEDULES_MAX} schedules do not find it: {MUTANTS[name].sentence}"
            )
            return
    _run_once(kill.seed, kill.family)  # without the bug the schedule succeeds
