"""Our own quorum of three processes under load: its leader is killed fifty times, hangs, and is cut off one way and both ways.

Afterwards the log is read from every node, and the loss checker looks at everything that was sent, answered and read: nothing
acknowledged is lost or out of order, nothing refused is there, an epoch has one leader, nobody gave a stale answer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.own import passed
from tools.kill_loop import kill
from tools.loss import faults
from tools.loss.checker import Minimum
from tools.loss.history import Leadership
from tools.loss.run import Result, judge, under_load
from tools.own_quorum import QUICK, own_quorum

_CYCLES = 50
_SEED = 595
#: Each fault of the network so often.
_TIMES = 2


def test_fifty_leaders_are_killed(tmp_path: Path) -> None:
    result = kill(_CYCLES, random.Random(_SEED), ("leader",), "own", tmp_path / "journal")
    passed("leader killed fifty times", result)
    assert result.facts["epochs"] > _CYCLES


@pytest.mark.parametrize("kind", ["new leader", "while starting", "two", "all"])
def test_worse_kills(kind: str, tmp_path: Path) -> None:
    passed(f"killed: {kind}", kill(2, random.Random(_SEED), (kind,), "own", tmp_path / "journal"))


def test_a_paused_leader_gives_no_stale_answer(tmp_path: Path) -> None:
    """Asked while it stood still, it answers at once when it goes on, and must not answer as a leader that it is no more."""
    answers: list[Leadership | None] = []
    with own_quorum(3, properties=QUICK) as cluster:
        with under_load(cluster, tmp_path / "journal") as run:
            run.writers.wait_for(faults.APPENDS)
            for _ in range(_TIMES):
                answers += faults.pause_leader(run, random.Random(_SEED))
                run.harmed("pause")
        passed("leader paused", judge(run, Minimum(acknowledged=20, epochs=_TIMES + 1, leader_answers=20)))
    assert len(answers) >= 10 * _TIMES


@pytest.mark.parametrize(
    "fault",
    [faults.cut_off_leader, faults.deafen_leader, faults.silence_leader],
    ids=["leader cut off", "leader does not hear", "leader is not heard"],
)
def test_a_leader_that_is_cut_off_is_left(fault: faults.Fault, tmp_path: Path) -> None:
    result = under(fault, tmp_path / "journal", QUICK)
    passed(fault.__name__, result)
    assert result.facts["epochs"] > _TIMES


@pytest.mark.parametrize("fault", [faults.cut_off_follower, faults.reset_connections], ids=["follower cut off", "resets"])
def test_a_leader_that_works_stays(fault: faults.Fault, tmp_path: Path) -> None:
    """Pre-vote and the time-outs spare a quorum an election that it does not need."""
    result = under(fault, tmp_path / "journal", {})
    passed(fault.__name__, result)
    assert result.facts["epochs"] == 1


def under(fault: faults.Fault, journal: Path, properties: Mapping[str, str]) -> Result:
    """A quorum behind proxies under that fault, judged."""
    with own_quorum(3, properties=properties, proxied=True) as cluster:
        with under_load(cluster, journal) as run:
            run.writers.wait_for(faults.APPENDS)
            for _ in range(_TIMES):
                fault(run, random.Random(_SEED))
                run.harmed(fault.__name__)
        return judge(run, Minimum(acknowledged=_TIMES * faults.APPENDS, leader_answers=10))
