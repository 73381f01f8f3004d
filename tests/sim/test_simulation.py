"""Quorums with every fault, in their thousands: nothing acknowledged is lost, nobody leads twice,
and it comes to work again.

``docs/simulation.md`` says what is simulated. ``KWIRE_SIM_SCHEDULES`` asks for more or fewer than
the 2,000 of every test run; a failing schedule says how to see it again, and belongs into
``corpus.txt`` then.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.chance import Fault
from tests.sim.scenarios import SCENARIOS, scenario_of
from tests.sim.schedule import Failed, Tally, replay_line, run, shrink, world_of

SCHEDULES = int(os.environ.get("KWIRE_SIM_SCHEDULES", "2000"))
PROCESSES = 2
ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = Path(__file__).with_name("corpus.txt")


def corpus() -> Iterator[tuple[int, str]]:
    """Schedules that failed once: (seed, family)."""
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            seed, family, *_ = line.split()
            yield int(seed), family


@pytest.mark.timeout(600)
def test_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    """Half of them in each of two processes."""
    share = SCHEDULES // PROCESSES
    code = "import sys; from tests.sim.schedule import run_many; print(run_many(range(*map(int, sys.argv[1:]))).as_json())"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(n * share), str((n + 1) * share)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for n in range(PROCESSES)
    ]  # fmt: skip
    done = [process.communicate() for process in running]
    for process, (_, errors) in zip(running, done, strict=True):
        assert process.returncode == 0, errors[-4000:]
    tally = Tally.sum(Tally.of_json(out) for out, _ in done)
    with capsys.disabled():
        print(f"\nsimulation: {tally}")
    assert tally.schedules == share * PROCESSES
    assert tally.acked > 5 * tally.schedules
    assert tally.leaders > 2 * tally.schedules


@pytest.mark.parametrize(("seed", "family"), list(corpus()))
def test_what_failed_once_does_not_again(seed: int, family: str) -> None:
    run(seed, family)


@pytest.mark.parametrize("family", SCENARIOS)
def test_every_family_is_among_the_seeds(family: str) -> None:
    assert any(scenario_of(seed).name == family for seed in range(100))
    run(7, family)


def test_a_seed_is_the_same_schedule_in_every_process() -> None:
    """Hash seeds differ from process to process; what happens may not."""
    seeds = range(100)
    ours = [run(seed).hash for seed in seeds]
    code = f"from tests.sim.schedule import run; print([run(seed).hash for seed in {seeds!r}])"
    for hash_seed in ("0", "4711"):
        theirs = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert theirs.stdout.strip() == str(ours)


def test_leaving_out_faults_changes_nothing_else() -> None:
    """All faults of a schedule, asked for by name, are the schedule."""
    for seed in range(10):
        world = world_of(seed)
        whole = world.run()
        assert world_of(seed, only=world.chance.taken).run().hash == whole.hash


def test_a_schedule_that_fails_is_made_smaller_and_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A core that commits what only it has fails in a schedule with few faults, or none."""
    from tests.sim import mutants

    with mutants.put_in("commits_alone"):
        for seed in range(200):
            try:
                run(seed)
            except Failed as failed:
                assert replay_line(seed, failed.family) in str(failed)
                world = world_of(seed)
                with pytest.raises(Exception):  # noqa: B017 - whatever it is, it is there again
                    world.run()
                fewer: list[Fault] = shrink(seed, None)
                assert len(fewer) <= len(world.chance.taken)
                return
    pytest.fail("200 schedules do not fail")
