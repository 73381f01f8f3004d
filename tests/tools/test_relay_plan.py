"""The plan of a tree of gateways: its arithmetic, and the simulated lag of each level."""

from __future__ import annotations

import statistics

import pytest
from click.testing import CliRunner

from tools.relay_plan import Plan, lags, lines, main

PLAN = Plan(readers=1000, hosts=10, relays=2)


def test_arithmetic_of_each_level() -> None:
    assert PLAN.fan_out == (2, 5, 100)
    assert PLAN.processor(2) == pytest.approx(22 * 100 * 300e-6)
    assert PLAN.bytes_per_s(0) == pytest.approx(22 * 2 * 320)


def test_every_child_has_every_commit() -> None:
    relays, hosts, readers = lags(PLAN, commits=7)
    assert (len(relays), len(hosts), len(readers)) == (14, 70, 7000)


def test_lone_commits_are_as_late_as_the_answers_before_them() -> None:
    plan = Plan(readers=30, hosts=3, relays=1, commits_per_s=0.001)
    relays, hosts, readers = lags(plan, commits=5)
    assert set(map(round, relays)) == {4}
    assert max(hosts) == pytest.approx(2 * 4 + 3 * 0.4)
    assert max(readers) == pytest.approx(2 * 4 + 3 * 0.4 + 10 * 0.3)


def test_busy_gateways_are_later_than_idle_ones() -> None:
    busy, idle = (Plan(hosts=10, readers=1000, commits_per_s=rate) for rate in (30.0, 1.0))
    assert statistics.median(lags(busy)[2]) > statistics.median(lags(idle)[2])


def test_command_prints_a_row_for_each_level_and_fails_without_enough_processors() -> None:
    assert len(lines(PLAN)) == 2 + 3
    small = ["--readers", "1000", "--hosts", "10"]
    assert CliRunner().invoke(main, small).exit_code == 0
    assert CliRunner().invoke(main, ["--readers", "10000", "--hosts", "10"]).exit_code == 1
