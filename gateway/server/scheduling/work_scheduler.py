"""Completes the work of requests in slices: one slice, then every other task of the loop, then a
slice of the next work.

One task runs the slices of all connections, and threads run the functions that work asks for. It
does not know what is done: work is a generator, of a handler (``gateway.ports.work``) or of a
response that is being encoded (``gateway.server.clients.response_scheduler``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.slices import SLICE_S
from gateway.ports.pending_response import WorkType
from gateway.server.scheduling.counts import SliceCounter

if TYPE_CHECKING:
    from gateway.server.scheduling.counts import Counts

    #: Work of a request, which yields as ``gateway.ports.work`` says.
    Steps = Generator[Callable[[], Any] | None, Any, Any]

#: Functions that run in threads at the same time. They share one processor.
_THREADS_MAX: Final = 2


class Job:
    """The work of one request. Exactly one of its callbacks is called, unless it is cancelled."""

    __slots__ = ("api_key", "completed", "failed", "is_cancelled", "resume", "spent", "version",
        "work")  # fmt: skip

    def __init__(
        self,
        work: Steps,
        api_key: int,
        version: int,
        completed: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.work = work
        self.api_key = api_key
        self.version = version
        self.completed = completed
        self.failed = failed
        self.is_cancelled = False
        #: Called with the seconds of each slice.
        self.spent: Callable[[float], None] | None = None
        self.resume: Callable[[], Any] = partial(next, work)

    def cancel(self) -> None:
        """The connection is closed: the work is not resumed."""
        self.is_cancelled = True


class WorkScheduler:
    """All work of handlers that is in progress. One task runs :meth:`run`."""

    def __init__(self, counts: Counts, took: Callable[[float, dict[str, Any]], None]) -> None:
        """``took`` is called after each long slice with its seconds and its request's fields."""
        self._count = SliceCounter(counts, took)
        self._new: deque[Job] = deque()  # without a slice so far
        self._begun: deque[Job] = deque()
        self._turn_of_begun = False
        self._wake = trio.Event()
        self._threads = trio.CapacityLimiter(_THREADS_MAX)

    def submit(self, job: Job) -> None:
        """Complete a job. New jobs and begun ones take turns, so that a short one does not wait
        behind long ones.
        """
        self._new.append(job)
        self._wake.set()

    async def run(self) -> None:
        """Complete jobs, for ever."""
        async with trio.open_nursery() as nursery:
            while True:
                if not self._new and not self._begun:
                    self._wake = trio.Event()
                    await self._wake.wait()
                self._run_slice(self._next(), nursery)
                await trio.lowlevel.checkpoint()

    def _next(self) -> Job:
        self._turn_of_begun = not self._turn_of_begun
        first, second = (
            (self._begun, self._new) if self._turn_of_begun else (self._new, self._begun)
        )
        return (first or second).popleft()

    def _run_slice(self, job: Job, nursery: trio.Nursery) -> None:
        if job.is_cancelled:
            return
        began = time.perf_counter()
        ends_at = began + SLICE_S
        try:
            function = job.resume()
            while function is None and time.perf_counter() < ends_at:
                function = next(job.work)
        except StopIteration as end:
            self._continue_with(job, end.value)
        except Exception as error:
            job.failed(error)
        else:
            job.resume = partial(next, job.work)
            if function is None:
                self._begun.append(job)
            else:
                nursery.start_soon(self._call_in_thread, job, function)
        seconds = time.perf_counter() - began
        self._count(job.api_key, job.version, seconds)
        if job.spent is not None:
            job.spent(seconds)

    def _continue_with(self, job: Job, result: Any) -> None:
        if isinstance(result, WorkType):
            job.work, job.resume = result, partial(next, result)
            self._begun.append(job)
        else:
            job.completed(result)

    async def _call_in_thread(self, job: Job, function: Callable[[], Any]) -> None:
        try:
            value = await trio.to_thread.run_sync(function, limiter=self._threads)
        except Exception as error:
            job.resume = partial(job.work.throw, error)
        else:
            job.resume = partial(job.work.send, value)
        self._begun.append(job)
        self._wake.set()
