"""Carries out events one after another, long ones in slices between which other tasks run.

An event is a request to the active controller or to the group coordinator. It is carried out at
once where no other event is in progress and its own work is short. Longer work goes on in the task
:meth:`SlicedExecutor.run`. Events wait in a queue meanwhile, so that each of them sees one state:
this is the single event queue of Kafka's ``QuorumController`` and of a shard of its
``CoordinatorRuntime``. Other work of the owner, such as periodic tasks, takes its turn between two
events. The work itself is a generator (``gateway.base.slices``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from gateway.base.slices import SLICE_S

if TYPE_CHECKING:
    from gateway.base.slices import Slices

_E = TypeVar("_E")
_R = TypeVar("_R")
_T = TypeVar("_T")


class _Job(Generic[_E]):
    """The work of ``event``, or other work of the owner, where it is None. ``spent_s`` is its time
    so far.
    """

    __slots__ = ("complete", "event", "failed", "slices", "spent_s")

    def __init__(
        self,
        event: _E | None,
        slices: Slices[Any],
        complete: Callable[[Any, Any, float], None],
        failed: Callable[[Any, Exception], None],
    ) -> None:
        self.event = event
        self.slices = slices
        self.complete = complete
        self.failed = failed
        self.spent_s = 0.0


class SlicedExecutor(Generic[_E, _R]):
    """``begin`` returns the work of an event, or None if no client waits for it. ``complete``
    receives the result of the work and the seconds that it took, ``failed`` the exception that
    ended it.
    """

    def __init__(
        self,
        begin: Callable[[_E], Slices[_R] | None],
        complete: Callable[[_E, _R, float], None],
        failed: Callable[[_E, Exception], None],
    ) -> None:
        self._begin = begin
        self._complete = complete
        self._failed = failed
        self._queue: deque[_E] = deque()
        self._next: _Job[_E] | None = None  # work that begins before the next event
        self._current: _Job[_E] | None = None
        self._behind: tuple[Slices[None], Callable[[Exception], None]] | None = None
        self._in_slice = False
        self._wake_up = trio.Event()

    @property
    def is_busy(self) -> bool:
        """Whether the work of an event is in progress."""
        return self._current is not None

    def submit(self, event: _E) -> None:
        """Carry out an event, at once or when its turn comes."""
        self._queue.append(event)
        self._advance_if_idle()

    def run_next(
        self,
        work: Slices[_T],
        complete: Callable[[_T, float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Run ``work`` of the owner before the next event, or at once if no event is in progress.

        ``complete`` receives its result and the seconds that it took. A later call replaces work
        that has not begun.
        """
        self._next = _Job(
            None,
            work,
            lambda _, result, seconds: complete(result, seconds),
            lambda _, error: failed(error),
        )
        self._advance_if_idle()

    def run_when_idle(self, work: Slices[None], failed: Callable[[Exception], None]) -> None:
        """Run ``work`` of the owner whenever there is no event, in place of the work of an earlier
        call. Events may be carried out between any two of its slices.
        """
        self._behind = work, failed
        self._wake_up.set()

    def cancel_all(self) -> list[_E]:
        """Give up all work, as its state is lost. Returns its events, the first one first."""
        current = None if self._current is None else self._current.event
        dropped = ([] if current is None else [current]) + list(self._queue)
        self._current = self._next = self._behind = None
        self._queue.clear()
        return dropped

    async def run(self) -> None:
        """Continue work that takes more than one slice, for ever."""
        while True:
            await self._wake_up.wait()
            self._wake_up = trio.Event()
            while self._has_work or self._behind is not None:
                if self._has_work:
                    self._slice()
                else:
                    self._slice_behind()
                await trio.lowlevel.checkpoint()

    @property
    def _has_work(self) -> bool:
        return bool(self._current or self._queue or self._next)

    def _advance_if_idle(self) -> None:
        # A completed event may submit the next one from its callback.
        if self._current is None and not self._in_slice:
            self._slice()
            if self._has_work:
                self._wake_up.set()

    def _slice(self) -> None:
        now = time.perf_counter()
        end = now + SLICE_S
        self._in_slice = True
        try:
            while now < end and self._has_work:
                now = self._step(now, end)
        finally:
            self._in_slice = False

    def _slice_behind(self) -> None:
        """Continue the work that waits behind events."""
        assert self._behind is not None, "there is such work"
        work, failed = self._behind
        end = time.perf_counter() + SLICE_S
        try:
            while time.perf_counter() < end:
                next(work)
        except StopIteration:
            self._behind = None
        except Exception as error:  # a bug, as in :meth:`_step`
            self._behind = None
            failed(error)

    def _step(self, now: float, end: float) -> float:
        """Continue the current work until ``end``, or begin the next one. Returns the time then.

        The clock is the wall clock: the processor time of the thread is a system call, which costs
        as much as a short event. On a busy machine slices are shorter.
        """
        job = self._current
        if job is None:
            job = self._take()
            if job is None:
                return now
            self._current = job
        began = now
        slices = job.slices
        try:
            while now < end:
                next(slices)
                now = time.perf_counter()
        except StopIteration as stop:
            self._current = None
            job.complete(job.event, stop.value, job.spent_s + time.perf_counter() - began)
            return time.perf_counter()
        except Exception as error:  # a bug: the state of the owner may be half changed
            self._current = None
            job.failed(job.event, error)
            return time.perf_counter()
        job.spent_s += now - began
        return now

    def _take(self) -> _Job[_E] | None:
        """Return the next work; None if no client waits for the next event any more, or ``begin``
        failed for it.
        """
        job = self._next
        if job is not None:
            self._next = None
            return job
        event = self._queue.popleft()
        try:
            work = self._begin(event)
        except Exception as error:  # a bug, as in :meth:`_step`
            self._failed(event, error)
            return None
        return None if work is None else _Job(event, work, self._complete, self._failed)
