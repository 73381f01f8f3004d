"""The observer against model quorums with every fault; what the simulation finds is measured by the
bugs it is given.

``KWIRE_SIM_SEEDS=5000`` runs more seeds than the few of every test run; a failing one says how to
see it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.gateway.quorum.observer import mutants
from tests.gateway.quorum.observer.process import Violation
from tests.gateway.quorum.observer.simulation import Simulation, replay_line, run
from tests.gateway.quorum.observer.world import Faults

SEEDS = int(os.environ.get("KWIRE_SIM_SEEDS", "40"))
#: Within so many seeds every bug must be found; most are within ten.
SEEDS_PER_MUTANT = 400

#: Events that must happen in a run of many seeds, or the run proves little.
EVENTS = (
    "Append",
    "Advance",
    "Persist",
    "Truncate",
    "BeginSnapshot",
    "SnapshotChunk",
    "InstallSnapshot",
    "AbandonSnapshot",
    "LearnClusterId",
    "Stop",
    "LeaderChanged",
    "request failed",
    "request refused",
    "protocol violation",
    "log truncated",
    "history tried",
)


def test_nothing_uncommitted_nothing_lost_nothing_twice() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += run(seed).seen
    assert not [event for event in EVENTS if not seen[event]], seen


def test_the_same_seed_is_the_same_run() -> None:
    """In another process with other hash seeds too: a failing seed can be seen again."""
    hashes = [run(seed).hash for seed in range(6)]
    code = (
        "from tests.gateway.quorum.observer.simulation import run; "
        "print([run(seed).hash for seed in range(6)])"
    )
    for hash_seed in ("0", "1"):
        other_process = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert other_process.stdout.strip() == str(hashes)


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_bug_is_found(name: str) -> None:
    with mutants.put_in(name):
        for seed in range(SEEDS_PER_MUTANT):
            try:
                run(seed)
            except Violation as found:
                print(f"{name}: seed {seed}: {str(found).splitlines()[0]}")
                return
    pytest.fail(f"{SEEDS_PER_MUTANT} seeds do not find it")


def test_a_failing_seed_says_how_to_see_it_again() -> None:
    with mutants.put_in("everything_in_the_log_is_committed"), pytest.raises(Violation) as found:
        for seed in range(10):
            run(seed)
    assert replay_line(0).removesuffix("0") in str(found.value)


def test_a_calm_quorum_is_followed_within_moments() -> None:
    """Without faults, what is committed is shown a few round trips later."""
    simulation = Simulation(1)
    simulation.faults = simulation.world.faults = Faults(*[0.0] * 14)
    simulation.live(5.0)
    committed = simulation.quorum.committed_end
    simulation.live(5.1)
    assert committed > 20
    assert simulation.process.shown >= committed
    assert not simulation.seen["Truncate"] and not simulation.seen["request failed"]
