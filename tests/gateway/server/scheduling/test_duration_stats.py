"""Percentiles of the most recent durations."""

from __future__ import annotations

from gateway.server.scheduling.duration_stats import DurationStats


def test_percentiles_are_of_the_last_durations() -> None:
    times = DurationStats()
    assert times.percentile(0.99) is None
    for seconds in range(2000):
        times.add(float(seconds))
    assert times.percentile(0) == 976.0, "1,024 of them are kept"
    assert (times.percentile(0.5), times.percentile(1)) == (1487.0, 1999.0)
