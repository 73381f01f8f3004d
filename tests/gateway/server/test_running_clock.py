"""A clock that stands still while its process does."""

from __future__ import annotations

from gateway.server.running_clock import STEP_MAX_MS, RunningClock


def test_time_that_was_slept_through_does_not_count() -> None:
    now_ms = 5.0
    clock = RunningClock(lambda: int(now_ms * 1_000_000))
    assert clock.read() == 0
    for _ in range(100):
        now_ms += 0.7
        clock.read()
    assert clock.read() == 70
    now_ms += 3_600_000
    assert clock.read() == 70 + STEP_MAX_MS
    assert clock.read() == 70 + STEP_MAX_MS


def test_it_runs_by_itself() -> None:
    clock = RunningClock()
    assert 0 <= clock.read() <= clock.read() < STEP_MAX_MS
