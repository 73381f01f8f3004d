"""Holds the counts of one process, and adds up those of all processes for the management port.

Counters of a process that has ended stay in the sums, so that no counter goes back; its gauges do
not. It knows neither processes nor Prometheus.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from gateway.server.scheduling.counts import ApiCounts, Counts, ViewCounts
from gateway.server.scheduling.loop_watchdog import EventLoopStats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.server.clients.server_context import ServerContext

_STATM: Final = "/proc/self/statm"


@dataclass(slots=True)
class WorkerCounts:
    """The counts of one process at one moment, or sums of them.

    The first fields are counters, the others gauges.
    """

    counts: Counts = field(default_factory=Counts)
    events: Counter[str] = field(default_factory=Counter)
    held: EventLoopStats = field(default_factory=EventLoopStats)
    cpu_s: float = 0.0
    buffered_bytes: int = 0
    parked: int = 0
    parked_fetches: int = 0
    resident_bytes: int = 0
    high_watermark: int = 0

    def counters(self) -> WorkerCounts:
        """Return the same without gauges, for a process that has ended."""
        views = ViewCounts(self.counts.views.hits, self.counts.views.misses)
        counts = replace(self.counts, connections=Counter(), software=Counter(), views=views)
        return WorkerCounts(counts, self.events, self.held, self.cpu_s)


def of_clients(context: ServerContext) -> WorkerCounts:
    """Return the counts of this process that concern its clients."""
    return WorkerCounts(
        context.counts,
        context.reports.counts,
        context.watchdog.measures,
        buffered_bytes=context.memory.held,
        parked=context.purgatory.parked,
        parked_fetches=context.purgatory.waiting,
    )


def counts_of(context: ServerContext, high_watermark: int) -> WorkerCounts:
    """Return all counts of this process."""
    return replace(
        of_clients(context),
        cpu_s=time.process_time(),
        resident_bytes=_resident_bytes(),
        high_watermark=high_watermark,
    )


def _resident_bytes() -> int:
    """Return the memory of this process, 0 where the system has no /proc."""
    try:
        with open(_STATM, encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def total(parts: Iterable[WorkerCounts]) -> WorkerCounts:
    """Add up counts; ``held`` has the longest step of all."""
    sums = WorkerCounts()
    for part in parts:
        _add(sums.counts, part.counts)
        sums.events.update(part.events)
        sums.held.held += part.held.held
        sums.held.held_s += part.held.held_s
        sums.held.longest_s = max(sums.held.longest_s, part.held.longest_s)
        sums.cpu_s += part.cpu_s
        sums.buffered_bytes += part.buffered_bytes
        sums.parked += part.parked
        sums.parked_fetches += part.parked_fetches
    return sums


def _add(sums: Counts, part: Counts) -> None:
    for api_key, api in part.apis.items():
        _add_api(sums.apis[api_key], api)
    sums.received += part.received
    sums.sent += part.sent
    sums.connections.update(part.connections)
    sums.software.update(part.software)
    sums.cuts.update(part.cuts)
    sums.views.hits += part.views.hits
    sums.views.misses += part.views.misses
    sums.views.entries += part.views.entries
    sums.views.size += part.views.size


def _add_api(sums: ApiCounts, part: ApiCounts) -> None:
    sums.buckets = [one + more for one, more in zip(sums.buckets, part.buckets, strict=True)]
    sums.seconds += part.seconds
    sums.waits += part.waits
    sums.wait_seconds += part.wait_seconds
    sums.errors.update(part.errors)
