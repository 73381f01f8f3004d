"""Three kwire processes under load: the leader is killed 8 times, suspended, and cut off in
one direction and in both.

Afterwards the log is read from every node, and the loss checker compares all requests, responses
and records: no acknowledged record is lost or out of order, no refused record is there, an epoch
has one leader, and no response is stale.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.own import passed
from tools.consistency_checker import faults
from tools.consistency_checker.checker import Minimum
from tools.consistency_checker.run import Result, judge, under_load
from tools.kill_loop import kill
from tools.own_quorum import QUICK, own_quorum
from tools.tcp_proxy import Network

_CYCLES = 8
_SEED = 595
#: Each fault but the first so often.
_TIMES = 1


def test_killed_leaders_lose_no_acknowledged_record(tmp_path: Path) -> None:
    result = kill(["leader"] * _CYCLES, random.Random(_SEED), "own", tmp_path / "journal")
    passed(f"leader killed {_CYCLES} times", result)
    assert result.facts["epochs"] > _CYCLES


def test_kills_of_several_nodes_lose_no_acknowledged_record(tmp_path: Path) -> None:
    """A leader that was only just elected, one that has not recovered yet, two at a time, all at a
    time.
    """
    kinds = ["new leader", "while starting", "two", "all"] * _TIMES
    passed("killed otherwise", kill(kinds, random.Random(_SEED), "own", tmp_path / "journal"))


def test_suspended_leader_gives_no_stale_response(tmp_path: Path) -> None:
    """Asked while it stood still, it answers at once when it goes on, and must not answer as a
    leader that it is no more.
    """
    with own_quorum(3, properties=QUICK) as cluster:
        with under_load(cluster, tmp_path / "journal") as run:
            run.writers.wait_for(faults.APPENDS)
            answers = [
                answer
                for _ in range(_TIMES)
                for answer in faults.pause_leader(run, random.Random(_SEED))
            ]
        passed(
            "leader paused",
            judge(run, Minimum(acknowledged=20, epochs=_TIMES + 1, leader_answers=20)),
        )
    assert len(answers) >= 10 * _TIMES


def test_leader_that_is_cut_off_is_replaced(tmp_path: Path) -> None:
    """Both ways; so that it does not hear the others; so that they do not hear it."""
    cuts = [faults.cut_off_leader, faults.deafen_leader, faults.silence_leader] * _TIMES
    result = under(cuts, tmp_path / "journal", QUICK)
    passed("leader cut off", result)
    assert result.facts["epochs"] > len(cuts)


def test_working_leader_keeps_its_epoch(tmp_path: Path) -> None:
    """While a follower is cut off and comes back, and while connections break: pre-vote and the
    time-outs spare an election.
    """
    result = under(
        [faults.cut_off_follower, faults.reset_connections] * _TIMES, tmp_path / "journal", {}
    )
    passed("follower cut off, connections reset", result)
    assert result.facts["epochs"] == 1


def under(kinds: Sequence[faults.Fault], journal: Path, properties: Mapping[str, str]) -> Result:
    """A quorum behind proxies under these faults, one after the other, judged."""
    with own_quorum(3, properties=properties, network=Network()) as cluster:
        with under_load(cluster, journal) as run:
            run.writers.wait_for(faults.APPENDS)
            for fault in kinds:
                fault(run, random.Random(_SEED))
        return judge(run, Minimum(acknowledged=len(kinds) * faults.APPENDS, leader_answers=10))
