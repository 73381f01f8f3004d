"""Defines a metric, for the tables of them, and the usual ways to make one.

It knows neither Prometheus nor any one metric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.server.management.facts import Facts
    from gateway.server.scheduling.duration_stats import DurationStats

#: One value of a metric: the values of its labels, in order, and the number.
Sample = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``samples`` gives its values now; a metric without samples is not shown."""

    name: str  #: as Prometheus stores it: that of a counter ends in _total
    kind: str  #: counter or gauge
    help: str
    samples: Callable[[Facts], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def gauge(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    """A gauge without labels; it is not shown while ``value`` is None."""
    return Metric(name, "gauge", help, lambda facts: one(value(facts)))


def counter(name: str, help: str, value: Callable[[Facts], float | None]) -> Metric:
    """A counter without labels; it is not shown while ``value`` is None."""
    return Metric(name, "counter", help, lambda facts: one(value(facts)))


def event_counter(name: str, help: str, event: str) -> Metric:
    """The number of times that an event was reported (``gateway.server.logging.logs.Reports``)."""
    return counter(name, help, lambda facts: facts.counted.events[event])


def one(value: float | None) -> Iterable[Sample]:
    """The sample of a metric without labels; none if the value is unknown."""
    return () if value is None else (((), value),)


def percentile_ms(times: DurationStats, share: float) -> float | None:
    """The time in ms that ``share`` of ``times`` did not exceed; None if there were none."""
    seconds = times.percentile(share)
    return None if seconds is None else 1000 * seconds


def applied_timestamp_ms(facts: Facts) -> float | None:
    """The largest timestamp of a record that clients can read, ms since the Unix epoch."""
    newest = facts.partition.max_timestamp()
    return None if newest is None else newest.timestamp


def applied_lag_ms(facts: Facts) -> float | None:
    """The age of the timestamp that :func:`applied_timestamp_ms` returns, ms."""
    timestamp = applied_timestamp_ms(facts)
    return None if timestamp is None else max(0.0, facts.wall() * 1000 - timestamp)
