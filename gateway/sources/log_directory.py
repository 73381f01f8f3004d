"""The ``log`` source: the metadata partition out of files that Kafka writes, followed while they change.

It is driven from outside: somebody calls :meth:`LogDirectory.refresh` every :attr:`LogDirectory.refresh_delay_s`. It has
no thread, and never writes or locks anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from gateway.log.chain import Chain
from gateway.log.follower import DirectoryFollower, FileFollower
from gateway.log.problem import Problem
from gateway.ports import OffsetAt, OffsetOutOfRange, Read, State
from gateway.sources import chain_reader

#: Between two looks: half of the 100 ms within which a write is to be seen, and under one percent of a core.
_DELAY_S: Final = 0.05
#: A batch may be seen half written; what is still so after this long is worth a word.
_NOTICE_AFTER_S: Final = 1.0
_EMPTY: Final = Chain((), 0, 0, (), 0)


class LogDirectory:
    """A metadata log on disk as ``gateway.ports.Partition``.

    ``refresh`` is the one call that a server needs. One that wants to keep slow disks off its loop calls ``scan`` in a
    thread, never two at once, and then ``publish`` on the loop; ``stirred`` tells it when a thread would be for nothing.
    """

    def __init__(self, follower: DirectoryFollower | FileFollower, *, cluster_id: str, log_dir: str) -> None:
        self.cluster_id = cluster_id
        self.log_dir = log_dir
        self._follower = follower
        self._chain: Chain | None = None
        self._served = _EMPTY
        self._callbacks: list[Callable[[], None]] = []
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
        first, old = self._chain is None, self._served
        if chain.notices != old.notices:
            self._noticed_at = time.monotonic()
        self._chain = self._served = chain
        if not first and (chain.start_offset, chain.end_offset) == (old.start_offset, old.end_offset):
            return False
        for callback in tuple(self._callbacks):
            callback()
        return True

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
        notices = self._served.notices if lasting else ()
        found: Iterable[Problem | None] = (self._follower.unreachable, self._served.broken, *notices)
        return tuple(problem for problem in found if problem)

    @property
    def problem(self) -> Problem | None:
        """The first of ``problems``."""
        return next(iter(self.problems), None)

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` from ``publish`` whenever the log start or the high watermark moved; returns the unsubscriber."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return unsubscribe

    # --- the partition ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """LOADING until everything was scanned once: no end is shown before it is known."""
        if self._chain is None:
            return State.LOADING
        if self._follower.unreachable:
            return State.STALE
        return State.BROKEN if self._served.broken else State.READY

    @property
    def leader_epoch(self) -> int:
        """Epoch of the last batch; that of the snapshot where the log holds nothing yet."""
        return self._served.epoch

    @property
    def log_start_offset(self) -> int:
        """The first offset served, the snapshot's records below the log start included."""
        return self._served.start_offset

    @property
    def high_watermark(self) -> int:
        """The end of what was written: on disk nothing says how much of it was committed."""
        return self._served.end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments from the log start on."""
        return sum(part.end - part.start for part in self._served.parts if part.shift == 0)

    def read(self, offset: int, max_bytes: int) -> Read:
        """As in ``gateway.ports.Partition``. While loading every offset is out of range."""
        if self._chain is None:
            raise OffsetOutOfRange("the log is still being loaded")
        return chain_reader.read(self._chain, offset, max_bytes)

    def bytes_available(self, offset: int, limit: int) -> int:
        """As in ``gateway.ports.Partition``."""
        return chain_reader.bytes_available(self._served, offset, limit)

    def offset_for_timestamp(self, timestamp: int) -> OffsetAt | None:
        """As in ``gateway.ports.Partition``."""
        return chain_reader.offset_for_timestamp(self._served, timestamp)

    def max_timestamp(self) -> OffsetAt | None:
        """As in ``gateway.ports.Partition``."""
        return chain_reader.max_timestamp(self._served)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka: for an epoch older than all, itself and the start of the first known one."""
        return self._served.end_offset_for_epoch(epoch)

    def epoch_at(self, offset: int) -> int:
        """As in ``gateway.ports.Partition``."""
        return self._served.epoch_at(offset)
