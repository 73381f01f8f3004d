"""Holds the counts of one process, and adds up those of all processes for the management port.

Counters of a process that has ended stay in the sums, so that no counter goes back; its gauges do
not. It knows neither processes nor Prometheus.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from gateway.server.counts import ApiCounts, Counts, ViewCounts
from gateway.server.loop_watchdog import Measures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.server.server_context import ServerContext

_STATM: Final = "/proc/self/statm"


class Memory(Protocol):
    """As ``gateway.server.memory.Memory``."""

    @property
    def held(self) -> int: ...


class Parked(Protocol):
    """As ``gateway.server.clients.purgatory.Purgatory``."""

    @property
    def parked(self) -> int: ...
    @property
    def waiting(self) -> int: ...


class Events(Protocol):
    """As ``gateway.server.logs.Reports``."""

    @property
    def counts(self) -> Counter[str]: ...


class Watched(Protocol):
    """As ``gateway.server.loop_watchdog.LoopWatchdog``."""

    @property
    def measures(self) -> Measures: ...


class Counted(Protocol):
    """The counts of one process or of all: what the pages of the management port read of a
    ``ServerContext``.
    """

    @property
    def counts(self) -> Counts: ...
    @property
    def memory(self) -> Memory: ...
    @property
    def purgatory(self) -> Parked: ...
    @property
    def reports(self) -> Events: ...
    @property
    def watchdog(self) -> Watched: ...


@dataclass(slots=True)
class WorkerCounts:
    """The counts of one process at one moment, or sums of them.

    The first fields are counters, the others gauges.
    """

    counts: Counts = field(default_factory=Counts)
    events: Counter[str] = field(default_factory=Counter)
    held: Measures = field(default_factory=Measures)
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


def counts_of(context: ServerContext, high_watermark: int) -> WorkerCounts:
    """Return the counts of this process."""
    return WorkerCounts(
        context.counts,
        context.reports.counts,
        context.watchdog.measures,
        time.process_time(),
        context.memory.held,
        context.purgatory.parked,
        context.purgatory.waiting,
        _resident_bytes(),
        high_watermark,
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


@dataclass(frozen=True, slots=True)
class _MemorySum:
    held: int


@dataclass(frozen=True, slots=True)
class _ParkedSum:
    parked: int
    waiting: int


@dataclass(frozen=True, slots=True)
class _EventsSum:
    counts: Counter[str]


@dataclass(frozen=True, slots=True)
class _WatchedSum:
    measures: Measures


@dataclass(frozen=True, slots=True)
class CountedTogether:
    """Sums, in the form of :class:`Counted`."""

    sums: WorkerCounts

    @property
    def counts(self) -> Counts:
        """Of clients."""
        return self.sums.counts

    @property
    def memory(self) -> Memory:
        """Of connections."""
        return _MemorySum(self.sums.buffered_bytes)

    @property
    def purgatory(self) -> Parked:
        """Requests with a pending response."""
        return _ParkedSum(self.sums.parked, self.sums.parked_fetches)

    @property
    def reports(self) -> Events:
        """Events by name."""
        return _EventsSum(self.sums.events)

    @property
    def watchdog(self) -> Watched:
        """Long steps of the event loops."""
        return _WatchedSum(self.sums.held)
