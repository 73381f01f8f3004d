"""Where answers wait: for a deadline, for the partition to advance, or both. Knows no sockets and
no APIs.

One task and one heap serve every parked request; nothing is spent on one while it waits. Completing
is a direct call of the connection's callback, which costs a quarter of waking a task each.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from gateway.handlers.context import PendingResponse
    from kwire.message import Message

#: So many waiters are asked, or deadlines met, before other tasks get their turn: about 10 ms.
SLICE: Final = 256
#: The heap is rebuilt when more than half of it, and more than so many entries, are answers that
#: came another way.
_DEAD_MAX: Final = 1024


class Purgatory:
    """The Waiters port, and the deadlines of every :class:`PendingResponse` that a connection waits
    for. One task runs :meth:`run`.
    """

    def __init__(self) -> None:
        self._waiting: dict[PendingResponse, Callable[[], Message | None]] = {}
        self._to_ask: dict[
            PendingResponse, None
        ] = {}  # a queue: those waiting when the partition advanced, in order
        self._failed: dict[PendingResponse, Callable[[Exception], None]] = {}
        self._heap: list[tuple[float, int, PendingResponse]] = []
        self._number = itertools.count()
        self._alive = 0  # entries of the heap that somebody still waits for
        self._wake = trio.Event()
        self._wakes_at = -math.inf  # when the task looks at the heap next; -inf while it is awake

    @property
    def parked(self) -> int:
        """Answers that connections wait for."""
        return len(self._failed)

    @property
    def waiting(self) -> int:
        """Those of them that wait for the partition: fetches."""
        return len(self._waiting)

    def park(self, pending: PendingResponse, ready: Callable[[], Message | None]) -> None:
        """Ask ``ready`` whenever the partition advances; a message it returns completes
        ``pending``.
        """
        self._waiting[pending] = ready

    def watch(self, pending: PendingResponse, failed: Callable[[Exception], None]) -> None:
        """A connection waits for ``pending``: see to its deadline; ``failed`` is told what
        ``ready`` or ``expire`` raised.
        """
        self._failed[pending] = failed
        if pending.deadline is not None:
            heapq.heappush(self._heap, (pending.deadline, next(self._number), pending))
            self._alive += 1
            if pending.deadline < self._wakes_at:
                self._wake.set()

    def forget(self, pending: PendingResponse) -> None:
        """``pending`` is answered, or nobody waits for it any more."""
        self._waiting.pop(pending, None)
        self._to_ask.pop(pending, None)
        if self._failed.pop(pending, None) is not None and pending.deadline is not None:
            self._alive -= 1
            dead = len(self._heap) - self._alive
            if dead > _DEAD_MAX and dead > self._alive:
                self._heap = [entry for entry in self._heap if entry[2] in self._failed]
                heapq.heapify(self._heap)

    def advanced(self) -> None:
        """The partition moved: everybody who waits is asked, soon and in order."""
        if self._waiting:
            for pending in self._waiting:
                self._to_ask.setdefault(pending)
            self._wake.set()

    def expire_all(self) -> None:
        """Every deadline is now: the server is about to stop."""
        for pending in list(self._failed):
            self._expire(pending)

    async def run(self) -> None:
        """Ask and expire, for ever."""
        while True:
            if self._ask_some() or self._expire_some():
                await trio.lowlevel.checkpoint()
                continue
            self._wakes_at = self._heap[0][0] if self._heap else math.inf
            with trio.move_on_at(self._wakes_at):
                await self._wake.wait()
            self._wakes_at = -math.inf
            self._wake = trio.Event()

    def _ask_some(self) -> bool:
        """Ask a slice of those to be asked; true if some are left."""
        for pending in list(itertools.islice(self._to_ask, SLICE)):
            self._to_ask.pop(
                pending, None
            )  # gone already if answering another one closed its connection
            ready = self._waiting.get(pending)
            if ready is not None:
                self._complete(pending, ready)
        return bool(self._to_ask)

    def _expire_some(self) -> bool:
        """Expire a slice of what is due; true if more may be due."""
        now = trio.current_time()
        for _ in range(SLICE):
            if not self._heap or self._heap[0][0] > now:
                return False
            pending = heapq.heappop(self._heap)[2]
            if pending in self._failed:
                self._expire(pending)
            else:
                continue
        return True

    def _expire(self, pending: PendingResponse) -> None:
        if pending.expire is not None:
            self._complete(pending, pending.expire)

    def _complete(self, pending: PendingResponse, answer: Callable[[], Message | None]) -> None:
        failed = self._failed.get(pending)
        try:
            response = answer()
        except Exception as error:  # a bug of a handler: it costs the connection, not the server
            self.forget(pending)
            if failed is not None:
                failed(error)
            return
        if response is not None:
            self._waiting.pop(pending, None)
            pending.complete(response)
