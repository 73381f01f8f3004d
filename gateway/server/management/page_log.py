"""Follows the served metadata log for the page, in a thread, as long as a page is open.

The first request starts a fold of the log; it gives the changes, their counts and the state now.
A state at another offset is folded from the start of the log, and kept until two others were asked
for. Without a request for ``IDLE_S`` everything is released.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from gateway.base.sizes import KIB
from gateway.page.change_index import ChangeIndex
from gateway.page.quorum import Leader, leader_of
from gateway.page.snapshot_json import followed
from gateway.page.state_fold import StateFold
from gateway.ports.services import OffsetOutOfRange, State
from gateway.sources.gc_tuning import (
    FoldedObjects,
    collector_paused,
    freeze_uncollected,
    release_incrementally,
)
from gateway.sources.log_reader import content
from gateway.views.cursor import ViewCursor
from gateway.views.encode import ViewEncoder

if TYPE_CHECKING:
    from gateway.ports.services import Read
    from gateway.server.logging.logs import Reports
    from gateway.sources.log_partition import LogPartition
    from kwire.cluster import Image

_T = TypeVar("_T")
#: Bytes of the log that are read at once.
_READ_BYTES: Final = 64 * KIB
#: Time without a request after which memory is released, s.
IDLE_S: Final = 60.0
#: The longest time that a request waits for the newest records, s.
_CAUGHT_UP_S: Final = 0.3
#: The longest time that a state waits for them: a large log is read from its start, s.
_NEWEST_S: Final = 60.0
#: Delay after an unexpected exception, s.
_FAILED_DELAY_S: Final = 1.0
#: States at other offsets that are kept: those of a difference.
_STATES_MAX: Final = 2
#: Epochs whose leaders are shown.
LEADERS_MAX: Final = 20


class NoState(ValueError):
    """There is no state at an offset; the text says why."""


@dataclass(slots=True)
class Follower:
    """A fold up to the present end: the state, the changes, and a number that no other has.

    A thread may be changing ``cursor`` and ``changes``. ``shown`` is what they were after the last
    step (``gateway.page.snapshot_json.followed``).
    """

    cursor: ViewCursor
    changes: ChangeIndex
    number: int
    shown: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.show()

    def show(self) -> None:
        """Set ``shown``, between two steps."""
        self.shown = followed(self.cursor, self.changes, self.number)


class PageLog:
    """The log as the page shows it. One task runs :meth:`run`."""

    def __init__(self, partition: LogPartition, reports: Reports) -> None:
        self.partition: Final = partition
        self.follower: Follower | None = None
        self._reports = reports
        self._numbers = itertools.count(os.getpid() << 20)  # a restarted server uses other numbers
        self._one = trio.Lock()  # held while a thread uses the fold or a state
        self._folding = trio.Lock()  # held while a state is folded
        self._wake, self._caught_up = trio.Event(), trio.Event()
        self._states: dict[int, StateFold] = {}  # by the end of the state, the oldest first
        self._leaders: dict[tuple[int, int], Leader] = {}
        self._objects = FoldedObjects()

    @property
    def available(self) -> bool:
        """Whether the log leads to a state: it begins at offset 0, or with a snapshot's records."""
        return self.partition.log_start_offset == 0 or self.partition.snapshot_end > 0

    async def run(self) -> None:
        """Fold the log when a request wakes the task, for ever."""
        while True:
            idle_s = float("inf") if self.follower is None else IDLE_S
            with trio.move_on_after(idle_s) as waiting:
                await self._wake.wait()
            if waiting.cancelled_caught:
                await self._release()
                continue
            self._wake = trio.Event()
            try:
                await self._follow()
            except Exception as error:
                self._reports.bug("internal error", error, listener="management", path="the page")
                await self._release()
                await trio.sleep(_FAILED_DELAY_S)
            self._caught_up.set()
            self._caught_up = trio.Event()

    async def follow(self) -> Follower | None:
        """Return the fold, caught up with the log unless that takes longer than ``_CAUGHT_UP_S``.
        None while the log is read for the first time, or if it leads to no state.
        """
        if self.partition.state is State.LOADING:
            return None
        if not self.available:
            return None
        self._wake.set()
        if self._is_behind():
            with trio.move_on_after(_CAUGHT_UP_S):
                await self._caught_up.wait()
        return self.follower

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Run ``work``, which may use the fold and the states, in a thread; return its result.
        Raises its exceptions.
        """
        async with self._one:
            return await trio.to_thread.run_sync(work)

    async def state(self, offset: int | None) -> Image:
        """Return the state before ``offset``, of now for None. It is read by :meth:`in_thread`.

        Raises NoState.
        """
        if self.partition.state is State.LOADING:
            raise NoState("The log is still being read.")
        if not self.available:
            raise NoState("The log begins after offset 0, and is served without a snapshot.")
        if offset is None:
            return (await self._newest()).cursor.image
        async with self._folding:
            return (await self._state_at(offset)).image

    async def _newest(self) -> Follower:
        """Return the fold when it has caught up with the log. Raises NoState after
        ``_NEWEST_S``.
        """
        deadline = trio.current_time() + _NEWEST_S
        while trio.current_time() < deadline:
            follower = await self.follow()
            if follower is not None and not self._is_behind():
                return follower
        raise NoState("The log is still being read.")

    def offset_at(self, time_ms: int) -> int:
        """Return the offset of the first record that is later than ``time_ms``."""
        found = self.partition.offset_for_timestamp(time_ms + 1)
        return self.partition.high_watermark if found is None else found.offset

    async def leaders(self) -> list[Leader]:
        """Return the leaders of the last epochs, the newest first."""
        epochs = [
            (epoch, offset)
            for epoch, offset in self.partition.served.epochs[-LEADERS_MAX:]
            if offset < self.partition.high_watermark
        ]
        known = self._leaders
        for key in epochs:
            if key not in known:
                known[key] = leader_of(*key, await self._read(key[1], 1))
        self._leaders = {key: known[key] for key in epochs if key in known}
        return list(reversed(self._leaders.values()))

    # --- the fold up to now
    # ---------------------------------------------------------------------------------------------

    def _is_behind(self) -> bool:
        follower = self.follower
        return (
            follower is None
            or follower.shown["offset"] != self.partition.high_watermark
            or not self._is_valid(follower.cursor)
        )

    def _is_valid(self, cursor: ViewCursor) -> bool:
        """Whether the log still has the records that were folded (KIP-101)."""
        partition = self.partition
        if cursor.epoch < 0 or cursor.next_offset < max(cursor.origin):
            return cursor.origin == (partition.log_start_offset, partition.snapshot_end)
        return (
            cursor.next_offset <= partition.high_watermark
            and partition.epoch_at(cursor.next_offset - 1) == cursor.epoch
        )

    async def _follow(self) -> None:
        follower = self.follower
        if follower is not None and not self._is_valid(follower.cursor):
            await self._release()
            follower = None
        if follower is None:
            partition = self.partition
            follower = self.follower = Follower(
                ViewCursor(partition.log_start_offset, partition.snapshot_end),
                ChangeIndex(ViewEncoder(partition.cluster_id)),
                next(self._numbers),
            )
        while await self._step(follower):
            pass

    async def _step(self, follower: Follower) -> bool:
        """Fold one piece; False if there is none now."""
        cursor, read = follower.cursor, None
        if cursor.is_hungry:
            if cursor.next_offset >= self.partition.high_watermark:
                return False
            read = self._begin_read(cursor.next_offset)
            if read is None or not read.size:
                return False

        def step() -> None:
            with collector_paused():
                if read is not None:
                    cursor.feed(content(read.chunks))
                piece = cursor.step()
                for change in piece.changes:
                    follower.changes.add(change)
            self._objects.made(len(piece.changes), is_building=not cursor.has_caught_up)

        try:
            await self.in_thread(step)
        finally:
            if read is not None:
                read.release()
        cursor.note_end(self.partition.high_watermark)
        follower.show()
        return True

    async def _release(self) -> None:
        """Drop everything. Freeing a state of a large cluster takes a while: in a thread."""
        async with self._one:
            gone = [one.image for one in self._states.values()]
            if self.follower is not None:
                gone.append(self.follower.cursor.image)
            self.follower, self._states, self._leaders = None, {}, {}
            await trio.to_thread.run_sync(release_incrementally, gone)

    # --- other states, and leaders
    # ---------------------------------------------------------------------------------------------

    async def _state_at(self, offset: int) -> StateFold:
        known = self._states.pop(offset, None)
        if known is None or not self._has(known):
            known = await self._folded(offset)
        self._states[offset] = known
        while len(self._states) > _STATES_MAX:
            gone = [self._states.pop(next(iter(self._states))).image]
            await trio.to_thread.run_sync(release_incrementally, gone)
        return known

    def _has(self, fold: StateFold) -> bool:
        return fold.next_offset == 0 or (
            self.partition.epoch_at(fold.next_offset - 1) == fold.epoch
        )

    async def _folded(self, offset: int) -> StateFold:
        partition = self.partition
        first = max(partition.snapshot_end, 0)
        if not first <= offset <= partition.high_watermark:
            raise NoState(
                f"The log has states at the offsets {first} to {partition.high_watermark},"
                f" not at {offset}."
            )
        fold = StateFold(partition.log_start_offset, offset)
        while fold.next_offset < offset:
            data = await self._read(fold.next_offset)
            if not data:
                raise NoState("The log was truncated. Ask again.")
            await trio.to_thread.run_sync(_take, fold, data)
        return fold

    async def _read(self, offset: int, bytes_max: int = _READ_BYTES) -> bytes:
        """Return whole batches from ``offset`` on, none where the log has changed meanwhile."""
        read = self._begin_read(offset, bytes_max)
        if read is None:
            return b""
        try:
            return await trio.to_thread.run_sync(content, read.chunks)
        finally:
            read.release()

    def _begin_read(self, offset: int, bytes_max: int = _READ_BYTES) -> Read | None:
        try:
            return self.partition.read(offset, bytes_max)
        except OffsetOutOfRange:
            return None


def _take(fold: StateFold, data: bytes) -> None:
    with collector_paused():
        fold.take(data)
    freeze_uncollected()  # records have no cycles, and the state stays
