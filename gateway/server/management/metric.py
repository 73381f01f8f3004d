"""What a metric is, for the tables of them. Knows neither Prometheus nor any one metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.server.duration_stats import DurationStats
    from gateway.server.management.facts import Facts

#: One value of a metric: the values of its labels, in order, and the number.
Sample = tuple[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``samples`` gives its values now; where there is none it is not shown."""

    name: str  #: as Prometheus stores it: that of a counter ends in _total
    kind: str  #: counter or gauge
    help: str
    samples: Callable[[Facts], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def one(value: float | None) -> Iterable[Sample]:
    """The sample of a metric without labels; none of what is not known."""
    return () if value is None else (((), value),)


def percentile_ms(times: DurationStats, share: float) -> float | None:
    """So much of these took no longer, ms; None where there were none."""
    seconds = times.percentile(share)
    return None if seconds is None else 1000 * seconds


def applied_timestamp_ms(facts: Facts) -> float | None:
    """Of the newest record that clients can see, ms since the epoch."""
    newest = facts.partition.max_timestamp()
    return None if newest is None else newest.timestamp


def applied_lag_ms(facts: Facts) -> float | None:
    """How long ago that was, ms."""
    timestamp = applied_timestamp_ms(facts)
    return None if timestamp is None else max(0.0, facts.wall() * 1000 - timestamp)
