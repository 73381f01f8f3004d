"""Simulated brokers with faults keep every invariant and recover.

``docs/broker-simulation.md`` lists faults and invariants. ``KWIRE_SIM_BROKERS`` sets another number
than the 40 schedules of every test run. A failing schedule prints the command that replays
it, and is then added to ``corpus.txt``.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.brokers.families import FAMILIES, family_of
from tests.sim.brokers.mutants import put_in
from tests.sim.brokers.schedule import replay_line, run, run_many, world_of
from tests.sim.history import Violation
from tests.sim.schedule import Failed, shrink

SCHEDULES = int(os.environ.get("KWIRE_SIM_BROKERS", "40"))
ROOT = Path(__file__).resolve().parent.parent.parent.parent
CORPUS = Path(__file__).with_name("corpus.txt")


def corpus() -> Iterator[tuple[int, str]]:
    """(seed, family) of each schedule that failed once."""
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            seed, family, *_ = line.split()
            yield int(seed), family


@functools.cache
def run_once(seed: int, family: str | None) -> str:
    """The hash of a schedule that succeeds."""
    return run(seed, family).hash


def test_random_schedules_keep_the_invariants(capsys: pytest.CaptureFixture[str]) -> None:
    tally = run_many(range(SCHEDULES))
    with capsys.disabled():
        print(f"\nsimulation of brokers: {tally}")
    assert tally.acked > 20 * tally.schedules
    assert tally.leaders > 2 * tally.schedules


@pytest.mark.parametrize(("seed", "family"), list(corpus()))
def test_schedule_of_the_corpus_succeeds(seed: int, family: str) -> None:
    run_once(seed, family)


@pytest.mark.parametrize("family", FAMILIES)
def test_family_is_selected_by_some_seed_and_succeeds(family: str) -> None:
    assert any(family_of(seed).name == family for seed in range(100))
    run_once(7, family)


def test_seed_gives_the_same_trace_in_a_process_with_another_hash_seed() -> None:
    seeds = range(4)
    expected = [run(seed).hash for seed in seeds]
    assert len(set(expected)) == len(expected)
    code = (
        f"from tests.sim.brokers.schedule import run; print([run(seed).hash for seed in {seeds!r}])"
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
    with put_in("joins_at_any_offset"):
        for seed in range(100):
            try:
                run(seed)
            except Failed as failed:
                assert replay_line(seed, failed.family) in str(failed)
                fewer = shrink(seed, None, world_of=world_of)
                assert len(fewer) < len(_taken(seed))
                with pytest.raises(Violation):
                    world_of(seed, only=fewer).run()
                return
    pytest.fail("none of 100 schedules fails")


def _taken(seed: int) -> list[object]:
    world = world_of(seed)
    with pytest.raises(Violation):
        world.run()
    return list(world.chance.taken)
