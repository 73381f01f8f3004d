"""Completes pending responses at their deadlines, or when the partition advances.

It knows no sockets and no APIs. One task and one heap serve all of them, and a response that waits
costs no time. Completing one calls the connection's callback directly, at a quarter of the cost of
waking a task. Kafka's counterpart is ``DelayedOperationPurgatory``.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

from gateway.slices import SLICE_S

if TYPE_CHECKING:
    from gateway.handlers.pending_response import PendingResponse
    from gateway.streamed import Streamed
    from kwire.message import Message

#: Responses that are tried, or expired, before other tasks run, unless ``SLICE_S`` passes before
#: that.
SLICE: Final = 256
#: The heap is rebuilt when more than so many entries, and more than half of it, are of responses
#: that are complete already.
_DEAD_MAX: Final = 1024


class Purgatory:
    """``gateway.ports.FetchPurgatory``, and the deadlines of all pending responses.

    One task runs :meth:`run`.
    """

    def __init__(self) -> None:
        self._waiting: dict[PendingResponse, Callable[[], Message | None]] = {}
        # A queue: those that waited when the partition advanced, in order.
        self._to_try: dict[PendingResponse, None] = {}
        self._failed: dict[PendingResponse, Callable[[Exception], None]] = {}
        self._heap: list[tuple[float, int, PendingResponse]] = []
        self._number = itertools.count()
        self._alive = 0  # entries of the heap whose response is still pending
        self._wake = trio.Event()
        self._wakes_at = -math.inf  # when the task examines the heap next; -inf while it runs

    @property
    def parked(self) -> int:
        """The number of pending responses."""
        return len(self._failed)

    @property
    def waiting(self) -> int:
        """The number of pending responses to Fetch, which wait for the partition to advance."""
        return len(self._waiting)

    def park(self, pending: PendingResponse, ready: Callable[[], Message | None]) -> None:
        """Call ``ready`` whenever the partition advances; its message completes ``pending``.

        ``ready`` returns None as long as there is nothing to respond.
        """
        self._waiting[pending] = ready

    def watch(self, pending: PendingResponse, failed: Callable[[Exception], None]) -> None:
        """Complete ``pending`` at its deadline.

        ``failed`` is called with an exception that its ``ready`` or ``expire`` raises.
        """
        self._failed[pending] = failed
        if pending.deadline is not None:
            heapq.heappush(self._heap, (pending.deadline, next(self._number), pending))
            self._alive += 1
            if pending.deadline < self._wakes_at:
                self._wake.set()

    def forget(self, pending: PendingResponse) -> None:
        """Drop ``pending``: it is complete, or its connection is closed."""
        self._waiting.pop(pending, None)
        self._to_try.pop(pending, None)
        if self._failed.pop(pending, None) is not None and pending.deadline is not None:
            self._alive -= 1
            dead = len(self._heap) - self._alive
            if dead > _DEAD_MAX and dead > self._alive:
                self._heap = [entry for entry in self._heap if entry[2] in self._failed]
                heapq.heapify(self._heap)

    def advanced(self) -> None:
        """The partition has advanced: the task tries every response that waits for it, in order."""
        if self._waiting:
            for pending in self._waiting:
                self._to_try.setdefault(pending)
            self._wake.set()

    def expire_all(self) -> None:
        """Expire every pending response now, because the server stops."""
        for pending in list(self._failed):
            self._expire(pending)

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
            self._to_try.pop(pending, None)
            ready = self._waiting.get(pending)
            if ready is not None:
                self.complete(pending, ready)
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
            if pending in self._failed:
                self._expire(pending)
                if time.perf_counter() >= until:
                    break
        return True

    def _expire(self, pending: PendingResponse) -> None:
        if pending.expire is not None:
            self.complete(pending, pending.expire)

    def complete(
        self, pending: PendingResponse, answer: Callable[[], Message | Streamed | None]
    ) -> None:
        """Complete ``pending`` with the response that ``answer`` returns; None leaves it
        pending.
        """
        failed = self._failed.get(pending)
        try:
            response = answer()
        except Exception as error:  # a bug of a handler costs its connection, not the server
            self.forget(pending)
            if failed is not None:
                failed(error)
            return
        if response is not None:
            self._waiting.pop(pending, None)
            pending.complete(response)
