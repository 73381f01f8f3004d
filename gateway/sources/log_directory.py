"""Serves the metadata partition from files that Kafka writes, and follows their changes.

The caller runs :meth:`LogDirectory.refresh` every :attr:`LogDirectory.refresh_delay_s`; there is no
thread in here. It never writes or locks a file, so it is safe beside a running controller.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from gateway.log.files.problem import Problem
from gateway.log.reading.follower import DirectoryFollower, FileFollower
from gateway.log.reading.log_view import LogView
from gateway.ports.services import State
from gateway.sources.log_partition import LogPartition

#: Seconds between two scans: half of the 100 ms within which a write is served, for less than one
#: percent of a core.
_DELAY_S: Final = 0.05
#: A batch may be read half written; one that is still so after this time is reported.
_NOTICE_AFTER_S: Final = 1.0


class LogDirectory(LogPartition):
    """A metadata log on disk as ``gateway.ports.services.Partition``.

    A simple caller needs ``refresh`` only. A server that keeps slow disks off its event loop calls
    ``scan`` in a thread, one at a time, and then ``publish`` on the loop; ``maybe_changed`` tells
    when a scan would find nothing.
    """

    def __init__(
        self,
        follower: DirectoryFollower | FileFollower,
        *,
        cluster_id: str,
        log_dir: str,
        directory: str | None = None,
    ) -> None:
        super().__init__(cluster_id=cluster_id, log_dir=log_dir)
        #: The partition's directory; None for a single file.
        self.directory: Final = directory
        self._follower = follower
        self._view: LogView | None = None
        self._behind = True
        self._noticed_at = time.monotonic()

    # --- following
    # ---------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Scan once, bounded; True if clients see a change. Runs the callbacks of
        ``on_advance``.
        """
        self.scan()
        return self.publish()

    def maybe_changed(self) -> bool:
        """Whether ``scan`` may find something: two or three ``stat`` calls, some microseconds on a
        local disk.
        """
        return self._behind or self._follower.maybe_changed()

    def scan(self) -> None:
        """Do the part of ``refresh`` that reads files: a few milliseconds with warm files. In any
        thread.
        """
        self._behind = self._follower.step()

    def publish(self) -> bool:
        """Do the part of ``refresh`` for the event loop: serve what the last scan found."""
        view = self._follower.view
        if view is None or view is self._view:
            return False
        first, old = self._view is None, self.served
        if view.notices != old.notices:
            self._noticed_at = time.monotonic()
        moved = first or (view.start_offset, view.end_offset) != (
            old.start_offset,
            old.end_offset,
        )
        self._view = view
        self.serve(view, notify=moved)
        return moved

    @property
    def refresh_delay_s(self) -> float:
        """Seconds until the next ``refresh``; 0 while there is more to scan."""
        return 0.0 if self._behind else _DELAY_S

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The current faults on disk, the worst first: unreachable, a corrupt batch, a torn tail, a
        bad snapshot.

        The last two only after one second, because a batch may be read while it is being written.
        """
        lasting = time.monotonic() - self._noticed_at >= _NOTICE_AFTER_S
        notices = self.served.notices if lasting else ()
        found: Iterable[Problem | None] = (self._follower.unreachable, self.served.broken, *notices)
        return tuple(problem for problem in found if problem)

    @property
    def problem(self) -> Problem | None:
        """The first of ``problems``."""
        return next(iter(self.problems), None)

    # --- the partition
    # ---------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """LOADING until everything was scanned once: before that the log end is unknown."""
        if self._view is None:
            return State.LOADING
        if self._follower.unreachable:
            return State.STALE
        return State.BROKEN if self.served.broken else State.READY
