"""Makes the decisions of the active controller one after another, long ones in slices.

A request is decided at once where no other decision is in progress and its own is short. A decision
that takes longer goes on in the task :meth:`Decisions.run`, and every other task runs between two
slices. Requests and periodic work wait in a queue meanwhile, so that each decision sees one state:
this is the single event queue of Kafka's ``QuorumController``. The rules are in
``gateway.controller``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from gateway.controller.controller import Decision
    from gateway.controller.slices import Slices
    from gateway.server.controller.proposals import QueuedRequest

#: How long one slice takes, s.
SLICE_S: Final = 0.005


class Decisions:
    """``begin`` starts a decision; ``complete`` gets it with the seconds it took; ``failed`` gets
    the exception of one that cannot be made.
    """

    def __init__(
        self,
        begin: Callable[[QueuedRequest], Slices[Decision]],
        complete: Callable[[QueuedRequest, Decision, float], None],
        failed: Callable[[QueuedRequest, Exception], None],
    ) -> None:
        self._begin = begin
        self._complete = complete
        self._failed = failed
        self._queue: deque[QueuedRequest] = deque()
        self._periodic: Callable[[], None] | None = None  # to be called between two decisions
        self._current: tuple[QueuedRequest, Slices[Decision]] | None = None
        self._spent_s = 0.0  # on the current decision
        self._in_slice = False
        self._wake_up = trio.Event()

    def submit(self, queued: QueuedRequest) -> None:
        """Decide on a request, at once or when its turn comes."""
        self._queue.append(queued)
        self._advance_if_idle()

    def run_periodic(self, work: Callable[[], None]) -> None:
        """Call ``work`` before the next decision; now, if none is in progress."""
        self._periodic = work
        self._advance_if_idle()

    def drop(self) -> list[QueuedRequest]:
        """Give up all decisions: the node has lost leadership. Returns their requests."""
        dropped = [] if self._current is None else [self._current[0]]
        dropped += self._queue
        self._current, self._periodic = None, None
        self._queue.clear()
        return dropped

    async def run(self) -> None:
        """Continue decisions that take more than one slice, for ever."""
        while True:
            await self._wake_up.wait()
            self._wake_up = trio.Event()
            while self._has_work:
                self._slice()
                await trio.lowlevel.checkpoint()

    @property
    def _has_work(self) -> bool:
        return bool(self._current or self._queue or self._periodic)

    def _advance_if_idle(self) -> None:
        # A completed decision may submit the next request from its callback.
        if self._current is None and not self._in_slice:
            self._slice()
            if self._has_work:
                self._wake_up.set()

    def _slice(self) -> None:
        end = time.thread_time() + SLICE_S
        self._in_slice = True
        try:
            while self._has_work and time.thread_time() < end:
                self._step(end)
        finally:
            self._in_slice = False

    def _step(self, end: float) -> None:
        """Continue the current decision until ``end``, or begin the next one."""
        if self._current is None and self._periodic is not None:
            work, self._periodic = self._periodic, None
            work()
            return
        if self._current is None:
            queued = self._queue.popleft()
            if not queued.is_wanted:
                return
            self._current, self._spent_s = (queued, self._begin(queued)), 0.0
        queued, slices = self._current
        began = time.thread_time()
        try:
            while time.thread_time() < end:
                next(slices)
        except StopIteration as stop:
            self._current = None
            self._complete(queued, stop.value, self._spent_s + time.thread_time() - began)
        except Exception as error:  # a bug: the state of the controller may be half changed
            self._current = None
            self._failed(queued, error)
        else:
            self._spent_s += time.thread_time() - began
