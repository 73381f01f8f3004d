"""Simulated brokers with faults keep every invariant and recover.

``docs/broker-simulation.md`` lists faults and invariants. ``KWIRE_SIM_BROKERS`` sets another number
than the 5,000 schedules of every test run. A failing schedule prints the command that replays
it, and is then added to ``corpus.txt``.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.brokers.families import FAMILIES, family_of
from tests.sim.brokers.mutants import MUTANTS
from tests.sim.brokers.schedules import BROKERS
from tests.sim.history import Violation
from tests.sim.schedule import Failed, corpus

SCHEDULES = int(os.environ.get("KWIRE_SIM_BROKERS", "5000"))
ROOT = Path(__file__).resolve().parent.parent.parent.parent
CORPUS = Path(__file__).with_name("corpus.txt")


@functools.cache
def run_once(seed: int, family: str | None) -> str:
    """The hash of a schedule that succeeds."""
    return BROKERS.run(seed, family).hash


@pytest.mark.timeout(3600)
def test_random_schedules_keep_the_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    tally = BROKERS.run_beside(SCHEDULES)
    with capsys.disabled():
        print(f"\nsimulation of brokers: {tally}")
    assert tally.schedules == SCHEDULES
    assert tally.acked > 20 * tally.schedules
    assert tally.leaders > 2 * tally.schedules


@pytest.mark.parametrize(("seed", "family"), list(corpus(CORPUS)))
def test_schedule_of_the_corpus_succeeds(seed: int, family: str) -> None:
    run_once(seed, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_family_is_selected_by_some_seed_and_succeeds(family: str) -> None:
    assert any(family_of(seed).name == family for seed in range(100))
    run_once(7, family)


def test_seed_gives_the_same_trace_in_a_process_with_another_hash_seed() -> None:
    seeds = range(4)
    expected = [BROKERS.run(seed).hash for seed in seeds]
    assert len(set(expected)) == len(expected)
    code = (
        "from tests.sim.brokers.schedules import BROKERS as schedules; "
        f"print([schedules.run(seed).hash for seed in {seeds!r}])"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout.strip() == str(expected)


def test_failing_schedule_prints_its_replay_and_shrinks_to_faults_that_still_fail() -> None:
    with MUTANTS.put_in("joins_at_any_offset"):
        for seed in range(100):
            try:
                BROKERS.run(seed)
            except Failed as failed:
                assert BROKERS.replay_line(seed, failed.family) in str(failed)
                fewer = BROKERS.shrink(seed, None)
                assert len(fewer) < len(_taken(seed))
                with pytest.raises(Violation):
                    BROKERS.world_of(seed, only=fewer).run()
                return
    pytest.fail("none of 100 schedules fails")


def _taken(seed: int) -> list[object]:
    world = BROKERS.world_of(seed)
    with pytest.raises(Violation):
        world.run()
    return list(world.chance.taken)
