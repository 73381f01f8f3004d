"""Figures of several rounds are judged by the best one, and only tests of the job note any."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests import speed
from tools.check.waits import figures


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KWIRE_SPEED", str(tmp_path / "noted"))
    return tmp_path / "noted"


def test_figure_is_the_best_of_its_rounds(noted: Path, request: pytest.FixtureRequest) -> None:
    for seconds in (0.5, 0.02, 0.4):
        speed.note("a request", seconds, usual_s=0.01)
    speed.note("a long request", 0.31, usual_s=0.1)
    quick, slow = figures(noted.read_text().splitlines())
    test = request.node.nodeid
    assert tuple(quick) == (test, "a request", 3, 0.02, 0.01) and not quick.over
    assert slow.over
    assert str(slow) == (
        f"{test}: a long request: best of 1: 310.0 ms, usually 100.0 ms  OVER 3 TIMES THAT"
    )


def test_block_that_raises_notes_nothing(noted: Path) -> None:
    clock = iter((1.0, 1.5, 2.0, 2.5)).__next__
    with pytest.raises(ZeroDivisionError), speed.measured("a fault", 1, clock):
        raise ZeroDivisionError
    with speed.measured("a request", 1, clock):
        pass
    [figure] = figures(noted.read_text().splitlines())
    assert figure[1:4] == ("a request", 1, 0.5)


def test_without_the_job_one_round_runs_and_nothing_is_noted(
    noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(speed.rounds()) == 5
    monkeypatch.delenv("KWIRE_SPEED")
    assert len(speed.rounds()) == 1
    with speed.measured("a request", 1, time.perf_counter):
        pass
    assert not noted.exists()
