"""Holds what a scripted cluster saw of a client: connections and requests, in order of arrival.

A check keeps a limited number of them, so that no program makes the command take the memory of the
machine. A program that exceeds a limit fails the check.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kwire.conformance.outcome import RuleFailed
from kwire.protocol import ApiKey

#: The most connections, requests, and bytes of requests and answers in one check.
LINKS_MAX: Final = 5_000
REQUESTS_MAX: Final = 20_000
BYTES_MAX: Final = 64 * 1024 * 1024
#: The most connections at one time.
OPEN_MAX: Final = 200


@dataclass
class Link:
    """A connection. Times are of ``time.monotonic``."""

    number: int
    broker: int
    opened_at: float
    closed_at: float | None = None
    #: The cluster closed it; otherwise the client did.
    closed_by_cluster: bool = False


@dataclass
class Seen:
    """A request. ``request`` is the decoded message, ``frame`` the bytes without their size."""

    number: int
    at: float
    link: Link
    api: int
    version: int
    correlation_id: int
    client_id: str | None
    request: Any
    frame: bytes
    #: The frame of the answer as it was sent, None while there is none.
    answer: bytes | None = None
    answered_at: float | None = None
    #: A few words on the fault that the answer has, "" without one.
    fault: str = ""
    #: Requests of the connection without an answer when this one arrived, itself included.
    in_flight: int = 1

    @property
    def broker(self) -> int:
        """The id of the node that received the request."""
        return self.link.broker


def fetch_offset(seen: Seen) -> int:
    """The offset of the first partition of a Fetch request, -1 if it names no partition."""
    for topic in seen.request.topics:
        for partition in topic.partitions:
            return int(partition.fetch_offset)
    return -1


class Traffic:
    """The requests of one program. Connections add to it from their threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: list[Seen] = []
        self._links: list[Link] = []
        self._open = 0
        self._bytes = 0

    def open(self, broker: int) -> Link:
        """Note a new connection. Raises RuleFailed for one too many."""
        with self._changed:
            if self._open == OPEN_MAX:
                raise _too_much(f"had more than {OPEN_MAX} connections open")
            if len(self._links) == LINKS_MAX:
                raise _too_much(f"opened more than {LINKS_MAX:,} connections")
            self._open += 1
            link = Link(len(self._links), broker, time.monotonic())
            self._links.append(link)
            self._changed.notify_all()
            return link

    def closed(self, link: Link, *, by_cluster: bool) -> None:
        """Note the end of a connection."""
        with self._changed:
            link.closed_at, link.closed_by_cluster = time.monotonic(), by_cluster
            self._open -= 1
            self._changed.notify_all()

    def add(self, make: Callable[[int], Seen]) -> Seen:
        """Note the request that ``make`` returns for its number. Raises RuleFailed for one too
        many.
        """
        with self._changed:
            if len(self._seen) == REQUESTS_MAX:
                raise _too_much(f"sent more than {REQUESTS_MAX:,} requests")
            seen = make(len(self._seen))
            self._seen.append(seen)
            self._changed.notify_all()
            return seen

    def count(self, size: int) -> None:
        """Count bytes that were received or sent. Raises RuleFailed if they are too many."""
        with self._changed:
            self._bytes += size
            if self._bytes > BYTES_MAX:
                raise _too_much(f"exchanged more than {BYTES_MAX >> 20} MiB with the cluster")

    def notify(self) -> None:
        """Wake the threads in :meth:`wait` after a change other than a request."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, until: float) -> None:
        """Return after the next change, and no later than ``until``."""
        with self._changed:
            self._changed.wait(max(0.0, min(until - time.monotonic(), 0.1)))

    def links(self) -> list[Link]:
        """Every connection so far."""
        with self._changed:
            return list(self._links)

    def all(self, api: ApiKey | None = None, *, broker: int | None = None) -> list[Seen]:
        """The requests so far, of one API or one node."""
        with self._changed:
            return [
                one
                for one in self._seen
                if (api is None or one.api == api) and (broker is None or one.broker == broker)
            ]

    def after(self, earlier: Seen, api: ApiKey | None = None) -> list[Seen]:
        """The requests that came after another one."""
        return [one for one in self.all(api) if one.number > earlier.number]

    def partitions(self, api: ApiKey) -> Iterator[tuple[Seen, Any]]:
        """(request, partition) of each partition in requests that have topics with partitions."""
        for one in self.all(api):
            for topic in one.request.topics:
                for partition in topic.partitions:
                    yield one, partition


def _too_much(what: str) -> RuleFailed:
    return RuleFailed(f"the program {what} in one check")
