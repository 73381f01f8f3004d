"""Thousands of simulated quorums with faults keep every invariant and recover.

``docs/simulation.md`` lists the faults and the invariants. ``KWIRE_SIM_SCHEDULES`` sets another
number than the 60 of every test run. A failing schedule prints the command that replays it, and
is then added to ``corpus.txt``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.history import Violation
from tests.sim.mutants import MUTANTS
from tests.sim.scenario import SCENARIOS
from tests.sim.scenarios import scenario_of
from tests.sim.schedule import Failed, corpus
from tests.sim.schedules import QUORUMS

SCHEDULES = int(os.environ.get("KWIRE_SIM_SCHEDULES", "60"))
ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(__file__).with_name("corpus.txt")


@pytest.mark.timeout(600)
def test_random_schedules_keep_the_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    tally = QUORUMS.run_beside(SCHEDULES)
    with capsys.disabled():
        print(f"\nsimulation: {tally}")
    assert tally.schedules == SCHEDULES
    assert tally.acked > 5 * tally.schedules
    assert tally.leaders > 2 * tally.schedules


@pytest.mark.parametrize(("seed", "family"), list(corpus(CORPUS)))
def test_schedule_of_the_corpus_succeeds(seed: int, family: str) -> None:
    QUORUMS.run(seed, family)


@pytest.mark.parametrize("family", SCENARIOS)
def test_family_is_selected_by_some_seed_and_succeeds(family: str) -> None:
    assert any(scenario_of(seed).name == family for seed in range(100))
    QUORUMS.run(7, family)


def test_seed_gives_the_same_trace_in_processes_with_other_hash_seeds() -> None:
    seeds = range(8)
    expected = [QUORUMS.run(seed).hash for seed in seeds]
    code = (
        "from tests.sim.schedules import QUORUMS as schedules; "
        f"print([schedules.run(seed).hash for seed in {seeds!r}])"
    )
    for hash_seed in ("0", "4711"):
        other = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.strip() == str(expected)


def test_replay_that_allows_all_taken_faults_gives_the_same_trace() -> None:
    for seed in range(6):
        world = QUORUMS.world_of(seed)
        whole = world.run()
        assert QUORUMS.world_of(seed, only=world.chance.taken).run().hash == whole.hash


def test_failing_schedule_prints_its_replay_and_shrinks_to_faults_that_still_fail() -> None:
    with MUTANTS.put_in("commits_alone"):
        for seed in range(200):
            try:
                QUORUMS.run(seed)
            except Failed as failed:
                assert QUORUMS.replay_line(seed, failed.family) in str(failed)
                world = QUORUMS.world_of(seed)
                with pytest.raises(Violation, match=re.escape(failed.invariant)):
                    world.run()
                fewer = QUORUMS.shrink(seed, None)
                assert len(fewer) < len(world.chance.taken)
                with pytest.raises(Violation):
                    QUORUMS.world_of(seed, only=fewer).run()
                return
    pytest.fail("none of 200 schedules fails")
