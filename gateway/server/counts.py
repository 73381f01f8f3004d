"""What the hot path counts for ``/metrics``: plain integers, incremented in place. Knows no
Prometheus, and nobody waits here.

Whoever wants to see them looks when asked (``gateway.server.management.metrics``); a request pays
for nothing but a few additions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.handlers.answer_errors import count_errors
from kwire.registry import request_type

if TYPE_CHECKING:
    from kwire.message import Message

#: Upper bounds, s, of the buckets in which the time of a request is counted; one more takes what is
#: longer.
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
    """One API: how many requests, how long they kept this server busy, how long they waited, which
    errors they got.
    """

    __slots__ = ("buckets", "errors", "name", "seconds", "wait_seconds", "waits")

    def __init__(self, api_key: int) -> None:
        self.name = request_type(api_key).__name__.removesuffix("Request")  #: as Kafka writes it
        self.buckets = [0] * (len(TIME_BOUNDS_S) + 1)  #: requests by time, as TIME_BOUNDS_S has it
        self.seconds = 0.0  #: sum of those times
        self.waits = 0  #: answers that came later than their request was carried out
        self.wait_seconds = 0.0  #: from those requests to their answers
        self.errors: Counter[int] = (
            Counter()
        )  #: error codes in answers, each as often as it stands there

    def carried_out(self, seconds: float) -> None:
        """A request kept the server busy for so long."""
        self.buckets[bisect_left(TIME_BOUNDS_S, seconds)] += 1
        self.seconds += seconds

    def waited(self, seconds: float) -> None:
        """A request's answer came so long after it."""
        self.waits += 1
        self.wait_seconds += seconds

    def answered(self, response: Message) -> None:
        """Count the errors that ``response`` tells."""
        count_errors(response, self.errors)


class _Apis(dict[int, ApiCounts]):
    def __missing__(self, api_key: int) -> ApiCounts:
        made = self[api_key] = ApiCounts(api_key)
        return made


@dataclass(slots=True)
class Counts:
    """What all connections count together. Keys that peers choose are kept only while their
    connections are open.
    """

    apis: dict[int, ApiCounts] = field(
        default_factory=_Apis
    )  #: by api key, those that were asked for
    received: int = 0  #: bytes
    sent: int = 0  #: bytes, those of files included
    connections: Counter[str] = field(default_factory=Counter)  #: open now, by listener
    software: Counter[str] = field(
        default_factory=Counter
    )  #: open connections by what client they say they are
    cuts: Counter[str] = field(
        default_factory=Counter
    )  #: connections that this server ended, by why
