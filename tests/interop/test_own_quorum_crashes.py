"""A quorum of one keeps every acknowledged record when it is killed at random moments or at a
call to its disk.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.clients import missing
from tests.interop.conftest import FIGURES
from tests.interop.own import passed
from tools import syscall_sweep
from tools.consistency_checker.checker import Minimum
from tools.consistency_checker.run import judge, under_load
from tools.own_quorum import own_quorum

_KILLS = 6
_SEED = 9
#: Of the calls of a start and of the first appends every third one is killed at, and some fail.
_POSITIONS = [
    *((number, "kill") for number in range(1, 27, 3)),
    *((number, "EIO") for number in range(2, 30, 7)),
]
#: They wait for the disk and for each other more than they compute.
_TOGETHER = 4


def test_kill_at_any_moment_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """Kills come at random moments, some before the process is ready again."""
    rand = random.Random(_SEED)
    with own_quorum(1) as cluster:
        [node] = cluster.nodes
        with under_load(cluster, tmp_path / "journal") as load:
            load.writers.wait_for(20)
            for number in range(_KILLS):
                time.sleep(rand.uniform(0.02, 1.0))
                since = time.monotonic()
                cluster.kill_node(node)
                cluster.start_node(node)
                if number % 3:
                    load.recovered(since, 5)
                load.fault_began("kill")
            load.writers.wait_for(20)
        passed("quorum of one killed at random", judge(load, Minimum(acknowledged=40, epochs=4)))


def test_kill_or_failure_at_a_disk_call_loses_no_acknowledged_record(tmp_path: Path) -> None:
    """strace kills the process, or fails its call, at the n-th call to the disk: no
    acknowledged record is lost, and a failure ends the process. ``python -m
    tools.syscall_sweep`` tries hundreds of positions.
    """
    if trouble := syscall_sweep.available():
        missing(trouble)
    with ThreadPoolExecutor(_TOGETHER) as pool:
        struck = list(pool.map(lambda one: strike(*one, tmp_path), _POSITIONS))  # type: ignore[call-arg]
    FIGURES.append(f"faults by strace: {sum(one.struck for one in struck)} of {len(struck)} struck")
    assert [one.wrong() for one in struck if one.wrong()] == []
    # Where the machine is busy more appends share a call, so fewer nodes come to a late position.
    assert sum(one.struck for one in struck) > len(struck) / 2


def strike(position: int, fault: str, scratch: Path) -> syscall_sweep.InjectedFault:
    own = scratch / f"{position}-{fault}"
    own.mkdir()
    return syscall_sweep.strike(position, fault, own)
