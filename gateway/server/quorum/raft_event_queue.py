"""Queues the events of a raft core and waits for the next one, or for the core's deadline."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Final

import trio

from gateway.base.slices import SLICE_S
from gateway.quorum.events import Event, Tick

#: Maximum number of events that are handled before other tasks of the event loop run.
_EVENTS_MAX: Final = 128


class RaftEventQueue:
    """The events that the core has not handled yet, in order."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._added = trio.Event()

    def add(self, event: Event) -> None:
        """Append an event."""
        self._events.append(event)
        self._added.set()

    def add_first(self, event: Event) -> None:
        """Insert an event that the core handles before all others."""
        self._events.appendleft(event)
        self._added.set()

    def clear(self) -> None:
        """Drop all events."""
        self._events.clear()

    async def wait(self, deadline: float) -> None:
        """Return when there is an event; at ``deadline``, s on the clock of the event loop, a Tick
        is one.
        """
        if self._events:
            # The checkpoint lets other tasks run even if events arrive faster than they are
            # handled.
            await trio.lowlevel.checkpoint()
            return
        self._added = trio.Event()
        with trio.move_on_at(deadline):
            await self._added.wait()
        if trio.current_time() >= deadline:
            self._events.append(Tick())

    def take(self) -> Iterator[Event]:
        """Remove and yield the events that are there now, up to ``_EVENTS_MAX``, for about the time
        of a slice: a proposal of thousands of records takes milliseconds.

        Events that are added meanwhile wait for the next call, but for :meth:`add_first`.
        """
        end = time.perf_counter() + SLICE_S
        for _ in range(min(len(self._events), _EVENTS_MAX)):
            yield self._events.popleft()
            if time.perf_counter() >= end:
                return
