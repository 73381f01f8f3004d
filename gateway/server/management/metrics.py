"""Renders the metrics as text for Prometheus: reads every value at each request.

It knows no HTTP. The registry is the server's own, so tests and libraries in the same process add
nothing to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics

from gateway.server.management.metrics_table import TABLE
from gateway.server.scheduling.counts import TIME_BOUNDS_S

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family

    from gateway.server.management.facts import Facts

#: The fetch rate is a mean over at least so long, s, where the server has run that long: a window
#: of Kafka's own rates.
RATE_WINDOW_S: Final = 30.0
_RATE_EVERY_S: Final = 1.0
_OPENMETRICS: Final = "application/openmetrics-text"
_PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server."""

    def __init__(self, facts: Facts) -> None:
        self._registry = CollectorRegistry()
        self._collector = _Collector(facts)
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)

    def read(self, facts: Facts) -> None:
        """Render these facts from now on."""
        self._collector.facts = facts

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """(content type, text) for a request with this ``Accept`` header.

        OpenMetrics if the header names it, else Prometheus's own format.
        """
        if _OPENMETRICS in [kind.split(";")[0].strip().lower() for kind in accept.split(",")]:
            return openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest(self._registry)  # type: ignore[no-untyped-call]
        return _PLAIN, generate_latest(self._registry)


class Rate:
    """The growth of a counter per second, from its values at earlier calls."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque()  # (time, number), oldest first

    def per_second(self, number: float, now: float) -> float:
        """The mean over RATE_WINDOW_S or longer; 0 at the first call. ``now``: s, never falls."""
        looks = self._looks
        while len(looks) > 1 and now - looks[1][0] >= RATE_WINDOW_S:
            looks.popleft()
        if not looks or now - looks[-1][0] >= _RATE_EVERY_S:
            looks.append((now, number))
        then, was = looks[0]
        return max(0.0, number - was) / (now - then) if now > then else 0.0


class _Collector:
    """Reads the table, the histogram of request times, and the fetch rate."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._fetched = Rate()

    def collect(self) -> Iterator[Family]:
        facts = self.facts.at_one_moment()
        for metric in TABLE:
            make = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            family = make(metric.name, metric.help, labels=metric.labels)
            for labels, value in metric.samples(facts):
                family.add_metric(labels, value)
            if family.samples:
                yield family
        yield _request_seconds(facts)
        status = facts.quorum_status()
        if status is not None:
            yield self._fetch_rate(status.fetched_records, facts.clock())

    def _fetch_rate(self, records: int, now: float) -> Family:
        help = "Records fetched from the leader per second, over the last 30 s or longer."
        return GaugeMetricFamily(
            "kafka_server_raft_metrics_fetch_records_rate",
            help,
            value=self._fetched.per_second(records, now),
        )


def _request_seconds(facts: Facts) -> Family:
    family = HistogramMetricFamily(
        "kwire_request_seconds",
        "Time that requests kept the server busy, without the time for which they were pending.",
        labels=("api",),
    )
    bounds = [*map(str, TIME_BOUNDS_S), "+Inf"]
    for api in facts.counted.counts.apis.values():
        family.add_metric(
            (api.name,), list(zip(bounds, accumulate(api.buckets), strict=True)), api.seconds
        )
    return family
