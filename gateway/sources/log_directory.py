"""The ``log`` source: the metadata partition out of files that Kafka writes, followed while they change.

It is driven from outside: somebody calls :meth:`LogDirectory.refresh` every :attr:`LogDirectory.refresh_delay_s`. It has
no thread, and never writes or locks anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from gateway.log.chain import Chain
from gateway.log.follower import DirectoryFollower, FileFollower
from gateway.log.problem import Problem
from gateway.ports import State
from gateway.sources.chain_partition import ChainPartition

#: Between two looks: half of the 100 ms within which a write is to be seen, and under one percent of a core.
_DELAY_S: Final = 0.05
#: A batch may be seen half written; what is still so after this long is worth a word.
_NOTICE_AFTER_S: Final = 1.0


class LogDirectory(ChainPartition):
    """A metadata log on disk as ``gateway.ports.Partition``.

    ``refresh`` is the one call that a server needs. One that wants to keep slow disks off its loop calls ``scan`` in a
    thread, never two at once, and then ``publish`` on the loop; ``stirred`` tells it when a thread would be for nothing.
    """

    def __init__(self, follower: DirectoryFollower | FileFollower, *, cluster_id: str, log_dir: str) -> None:
        super().__init__(cluster_id=cluster_id, log_dir=log_dir)
        self._follower = follower
        self._chain: Chain | None = None
        self._behind = True
        self._noticed_at = time.monotonic()

    # --- following ----------------------------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """One bounded look at the files; True if what clients see has moved. Runs the callbacks of ``on_advance``."""
        self.scan()
        return self.publish()

    def stirred(self) -> bool:
        """Whether there may be something to ``scan``: two or three ``stat`` calls, some microseconds on a local disk."""
        return self._behind or self._follower.stirred()

    def scan(self) -> None:
        """The part of ``refresh`` that reads files: a few milliseconds of work at most with warm files. Any one thread."""
        self._behind = self._follower.step()

    def publish(self) -> bool:
        """The part of ``refresh`` that belongs on the event loop: show clients what the last scan found."""
        chain = self._follower.chain
        if chain is None or chain is self._chain:
            return False
        first, old = self._chain is None, self.served
        if chain.notices != old.notices:
            self._noticed_at = time.monotonic()
        moved = first or (chain.start_offset, chain.end_offset) != (old.start_offset, old.end_offset)
        self._chain = chain
        self.show(chain, tell=moved)
        return moved

    @property
    def refresh_delay_s(self) -> float:
        """How long to wait before the next ``refresh``; 0 while there is more to scan."""
        return 0.0 if self._behind else _DELAY_S

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong on disk at the moment, the worst first: out of reach, a corrupt batch, a torn tail, a bad snapshot.

        The last two only when they have been so for a second.
        """
        lasting = time.monotonic() - self._noticed_at >= _NOTICE_AFTER_S
        notices = self.served.notices if lasting else ()
        found: Iterable[Problem | None] = (self._follower.unreachable, self.served.broken, *notices)
        return tuple(problem for problem in found if problem)

    @property
    def problem(self) -> Problem | None:
        """The first of ``problems``."""
        return next(iter(self.problems), None)

    # --- the partition ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """LOADING until everything was scanned once: no end is shown before it is known."""
        if self._chain is None:
            return State.LOADING
        if self._follower.unreachable:
            return State.STALE
        return State.BROKEN if self.served.broken else State.READY
