"""A clock that stands still while its process is suspended."""

from __future__ import annotations

from gateway.server.scheduling.running_clock import STEP_MAX_MS, RunningClock


def test_time_of_a_suspended_process_does_not_count() -> None:
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


def test_clock_of_this_process_starts_at_zero_and_never_goes_back() -> None:
    clock = RunningClock()
    assert 0 <= clock.read() <= clock.read() < STEP_MAX_MS
