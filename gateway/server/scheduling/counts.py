"""Counts requests, errors and bytes for ``/metrics`` in plain integers, incremented in place.

A request costs a few additions. ``gateway.server.management.metrics`` reads the counts when it is
scraped; this module does not import Prometheus.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.ports.answer_errors import count_errors
from gateway.ports.encoded import PartlyEncoded
from gateway.server.scheduling.loop_watchdog import NOTED_S
from kwire.registry import request_type

if TYPE_CHECKING:
    from kwire.message import Message

#: Upper bounds of the buckets of request times, s. One more bucket counts longer requests.
TIME_BOUNDS_S: Final = (
    0.00005,
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.1,
    1.0,
)


class ApiCounts:
    """Counts of one API: requests by processing time, waiting responses, and error codes."""

    __slots__ = ("buckets", "errors", "name", "seconds", "wait_seconds", "waits")

    def __init__(self, api_key: int) -> None:
        self.name = request_type(api_key).__name__.removesuffix("Request")  #: Kafka's spelling
        self.buckets = [0] * (len(TIME_BOUNDS_S) + 1)  #: requests by processing time
        self.seconds = 0.0  #: sum of the processing times
        self.waits = 0  #: responses that were completed after the request was handled
        self.wait_seconds = 0.0  #: sum of the times that these responses waited
        self.errors: Counter[int] = Counter()  #: occurrences of each error code in responses

    def run_sliced(self, seconds: float) -> None:
        """Count a request that took ``seconds`` of processing."""
        self.buckets[bisect_left(TIME_BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def waited(self, seconds: float) -> None:
        """Count a response that was completed ``seconds`` after its request was handled."""
        self.waits += 1
        self.wait_seconds += seconds

    def answered(self, response: Message | PartlyEncoded) -> None:
        """Count the error codes in ``response``."""
        if isinstance(response, PartlyEncoded):
            response.count_errors(self.errors)
        else:
            count_errors(response, self.errors)


class _Apis(dict[int, ApiCounts]):
    def __missing__(self, api_key: int) -> ApiCounts:
        made = self[api_key] = ApiCounts(api_key)
        return made


@dataclass(slots=True)
class ViewCounts:
    """Counts of the batches that are kept for readers of view topics."""

    hits: int = 0  #: reads that got batches which were kept
    misses: int = 0  #: reads whose batches had to be made first
    entries: int = 0  #: ranges of offsets whose batches are kept
    size: int = 0  #: memory of all of them, bytes


@dataclass(slots=True)
class Counts:
    """Counts of all connections together. Keys that peers choose are kept only while their
    connections are open, so that peers cannot make the tables grow.
    """

    #: By API key, for the APIs that were requested.
    apis: dict[int, ApiCounts] = field(default_factory=_Apis)
    received: int = 0  #: bytes
    sent: int = 0  #: bytes, those of files included
    #: Open connections by listener.
    connections: Counter[str] = field(default_factory=Counter)
    #: Open connections by the client software name that ApiVersions gave (KIP-511).
    software: Counter[str] = field(default_factory=Counter)
    #: Connections that this server closed, by reason.
    cuts: Counter[str] = field(default_factory=Counter)
    views: ViewCounts = field(default_factory=ViewCounts)


class SliceCounter:
    """Counts the slices of work that continue after their request was handled.

    ``took`` is called after each slice of at least ``NOTED_S`` with its seconds and the fields of
    its request.
    """

    __slots__ = ("_counts", "_took")

    def __init__(self, counts: Counts, took: Callable[[float, dict[str, Any]], None]) -> None:
        self._counts = counts
        self._took = took

    def __call__(self, api_key: int, version: int, seconds: float) -> None:
        """Count a slice of a request."""
        counts = self._counts.apis[api_key]
        counts.seconds += seconds
        if seconds >= NOTED_S:
            self._took(seconds, {"api": counts.name, "version": version})
