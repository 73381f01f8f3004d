"""Queues the work on one partition that a thread has to do, so that there is one order of appends,
truncations and deletions. It does no work itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

#: Performs work in a thread, and returns what the event loop calls afterwards.
Job = Callable[[], "Callable[[], None] | None"]


class PartitionJobs:
    """The jobs of one partition. All methods run on the event loop but :meth:`perform`. ``wake`` is
    called when there are jobs.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._jobs: deque[Job] = deque()
        self._is_busy = False  # a thread performs jobs

    @property
    def are_due(self) -> bool:
        """Whether there are jobs that no thread has taken."""
        return bool(self._jobs)

    @property
    def are_done(self) -> bool:
        """Whether there is none, and no thread at work: the event loop may write itself."""
        return not self._is_busy and not self._jobs

    def submit(self, job: Job) -> None:
        """Have ``job`` performed behind the others."""
        self._jobs.append(job)
        if not self._is_busy:
            self._wake()

    def take(self) -> list[Job]:
        """Return the jobs that are due, for :meth:`perform`; the partition is busy until
        :meth:`release`. None while it is, or without jobs.
        """
        if self._is_busy or not self._jobs:
            return []
        self._is_busy = True
        jobs, self._jobs = list(self._jobs), deque()
        return jobs

    @staticmethod
    def perform(jobs: list[Job]) -> list[Callable[[], None]]:
        """Perform jobs, in a thread; return what the event loop is to call."""
        return [done for job in jobs if (done := job()) is not None]

    def release(self) -> None:
        """The thread has performed the jobs that were taken."""
        self._is_busy = False

    def wake_if_due(self) -> None:
        """Have the jobs performed that came while a thread was at work."""
        if self._jobs and not self._is_busy:
            self._wake()
