"""Completes pending responses at their deadlines, or when a partition that they wait for advances.

It knows no sockets and no APIs. One task and one heap serve all of them, and a response that waits
costs no time. Completing one calls the connection's callback directly, at a quarter of the cost of
waking a task. Kafka's counterpart is ``DelayedOperationPurgatory``, with partitions as watch keys.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from gateway.base.slices import SLICE_S

if TYPE_CHECKING:
    from gateway.ports.pending_response import Advancing, PendingResponse

#: Responses that are tried, or expired, before other tasks run, unless ``SLICE_S`` passes before
#: that.
SLICE: Final = 256
#: The heap is rebuilt when more than so many entries, and more than half of it, are of responses
#: that are complete already.
_DEAD_MAX: Final = 1024


class _Watchers(NamedTuple):
    """The responses that wait for one partition, in order."""

    pending: dict[PendingResponse, None]
    unsubscribe: Callable[[], None]


class Purgatory:
    """All pending responses. One task runs :meth:`run`."""

    def __init__(self) -> None:
        #: How many responses wait for a partition to advance.
        self.waiting = 0
        # Each response is registered here once, with the partitions that it waits for.
        self._watched: dict[PendingResponse, tuple[Advancing, ...]] = {}
        self._watchers: dict[Advancing, _Watchers] = {}
        # A queue: those that waited when their partition advanced, in order.
        self._to_try: dict[PendingResponse, None] = {}
        self._heap: list[tuple[float, int, PendingResponse]] = []
        self._number = itertools.count()
        self._alive = 0  # entries of the heap whose response is still pending
        self._wake = trio.Event()
        self._wakes_at = -math.inf  # when the task examines the heap next; -inf while it runs

    @property
    def parked(self) -> int:
        """The number of pending responses."""
        return len(self._watched)

    def watch(self, pending: PendingResponse) -> None:
        """Try ``pending`` whenever one of its partitions advances, and expire it at its
        deadline.
        """
        partitions = self._watched[pending] = pending.partitions
        self.waiting += bool(partitions)
        for partition in partitions:
            self._watchers_of(partition).pending[pending] = None
        if pending.deadline is not None:
            heapq.heappush(self._heap, (pending.deadline, next(self._number), pending))
            self._alive += 1
            if pending.deadline < self._wakes_at:
                self._wake.set()

    def _watchers_of(self, partition: Advancing) -> _Watchers:
        found = self._watchers.get(partition)
        if found is None:
            waiting: dict[PendingResponse, None] = {}
            unsubscribe = partition.on_advance(partial(self._try_soon, waiting))
            found = self._watchers[partition] = _Watchers(waiting, unsubscribe)
        return found

    def forget(self, pending: PendingResponse) -> None:
        """Drop ``pending``: it is complete, or its connection is closed."""
        partitions = self._watched.pop(pending, None)
        if partitions is None:
            return
        self.waiting -= bool(partitions)
        self._to_try.pop(pending, None)
        for partition in partitions:
            watchers = self._watchers[partition]
            del watchers.pending[pending]
            if not watchers.pending:
                watchers.unsubscribe()
                del self._watchers[partition]
        if pending.deadline is not None:
            self._alive -= 1
            dead = len(self._heap) - self._alive
            if dead > _DEAD_MAX and dead > self._alive:
                self._heap = [entry for entry in self._heap if entry[2] in self._watched]
                heapq.heapify(self._heap)

    def _try_soon(self, waiting: Iterable[PendingResponse]) -> None:
        """Have the task try these responses, in order: their partition has advanced."""
        for pending in waiting:
            self._to_try.setdefault(pending)
        self._wake.set()

    def expire_all(self) -> None:
        """Expire every pending response now, because the server stops."""
        for pending in list(self._watched):
            pending.try_expire()

    async def run(self) -> None:
        """Try and expire responses for ever."""
        while True:
            if self._try_some() or self._expire_some():
                await trio.lowlevel.checkpoint()
                continue
            self._wakes_at = self._heap[0][0] if self._heap else math.inf
            with trio.move_on_at(self._wakes_at):
                await self._wake.wait()
            self._wakes_at = -math.inf
            self._wake = trio.Event()

    def _try_some(self) -> bool:
        """Try up to ``SLICE`` responses; True if more are left."""
        until = time.perf_counter() + SLICE_S
        for pending in list(itertools.islice(self._to_try, SLICE)):
            # It is gone already if completing another response closed its connection.
            if pending in self._to_try:
                del self._to_try[pending]
                pending.try_complete()
                if time.perf_counter() >= until:
                    break
        return bool(self._to_try)

    def _expire_some(self) -> bool:
        """Expire up to ``SLICE`` responses that are due; True if more may be due."""
        now, until = trio.current_time(), time.perf_counter() + SLICE_S
        for _ in range(SLICE):
            if not self._heap or self._heap[0][0] > now:
                return False
            pending = heapq.heappop(self._heap)[2]
            if pending in self._watched:
                pending.try_expire()
                if time.perf_counter() >= until:
                    break
        return True
