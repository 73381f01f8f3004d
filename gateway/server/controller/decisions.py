"""Makes the decisions of the active controller one after another, long ones in slices.

A request is decided at once where no other decision is in progress and its own is short. A decision
that takes longer goes on in the task :meth:`Decisions.run`, and every other task runs between two
slices. Requests wait in a queue meanwhile, so that each decision sees one state: this is the single
event queue of Kafka's ``QuorumController``. Its other work, activation and periodic tasks, takes
its turn in the same queue. The rules are in ``gateway.controller``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

if TYPE_CHECKING:
    from gateway.controller.controller import Decision
    from gateway.controller.slices import Slices
    from gateway.server.controller.proposals import QueuedRequest

_T = TypeVar("_T")
#: Duration of one slice, s.
SLICE_S: Final = 0.005


@dataclass(slots=True)
class _Job:
    """A decision on ``queued``, or other work of the controller, where it is None. ``spent_s`` is
    its time so far.
    """

    queued: QueuedRequest | None
    slices: Slices[Any]
    complete: Callable[[Any, float], None]
    failed: Callable[[Exception], None]
    spent_s: float = 0.0


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
        self._next: _Job | None = None  # work that begins before the next decision
        self._current: _Job | None = None
        self._in_slice = False
        self._wake_up = trio.Event()

    def submit(self, queued: QueuedRequest) -> None:
        """Decide on a request, at once or when its turn comes."""
        self._queue.append(queued)
        self._advance_if_idle()

    def run_between(
        self,
        work: Slices[_T],
        complete: Callable[[_T, float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run ``work`` of the controller before the next decision; now, if none is in progress.

        ``complete`` gets its result with the seconds it took. Work that has not begun when more
        is given is dropped.
        """
        self._next = _Job(None, work, complete, failed)
        self._advance_if_idle()

    def drop(self) -> list[QueuedRequest]:
        """Give up all decisions: the node has lost leadership. Returns their requests."""
        current = None if self._current is None else self._current.queued
        dropped = ([] if current is None else [current]) + list(self._queue)
        self._current = self._next = None
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
        return bool(self._current or self._queue or self._next)

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
        job = self._current
        if job is None and self._next is not None:
            job, self._next = self._next, None
        elif job is None:
            queued = self._queue.popleft()
            if not queued.is_wanted:
                return
            job = self._job(queued)
        self._current = job
        began = time.thread_time()
        try:
            while time.thread_time() < end:
                next(job.slices)
        except StopIteration as stop:
            self._current = None
            job.complete(stop.value, job.spent_s + time.thread_time() - began)
        except Exception as error:  # a bug: the state of the controller may be half changed
            self._current = None
            job.failed(error)
        else:
            job.spent_s += time.thread_time() - began

    def _job(self, queued: QueuedRequest) -> _Job:
        return _Job(
            queued,
            self._begin(queued),
            lambda decision, seconds: self._complete(queued, decision, seconds),
            lambda error: self._failed(queued, error),
        )
