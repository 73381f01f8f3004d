"""Makes the batches of the view topics from the served metadata log, when a reader asks for them.

Nothing is made, and no state is held, until a client reads a view. Then a cursor folds the log from
its start, piece by piece, in a thread; the loop reads the log and keeps the encoded pieces. A
reader that is where no cursor is starts another cursor, up to a few. ``gateway.views`` folds and
encodes, ``view_partition`` is the topic that handlers see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from gateway.base.sizes import KIB
from gateway.ports.services import OffsetOutOfRange
from gateway.ports.view_topics import VIEWS
from gateway.server.scheduling.counts import ViewCounts
from gateway.sources.gc_tuning import FoldedObjects, collector_paused, release_incrementally
from gateway.sources.log_partition import Callbacks
from gateway.sources.log_reader import content
from gateway.views.chunks import Chunk, Chunks, Collected
from gateway.views.cursor import Piece, ViewCursor
from gateway.views.encode import EncodedBatch, ViewEncoder
from gateway.views.fold import ViewOverflow
from kwire.cluster import view_offsets as offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.ports.services import FileRange, Read
    from gateway.server.logging.logs import Reports
    from gateway.sources.log_partition import LogPartition

#: Bytes of the log that are read at once.
_READ_BYTES: Final = 64 * KIB
#: Cursors at most: each holds a state of the cluster.
_CURSORS_MAX: Final = 3
#: Time without a reader after which the batches of a view are no longer made, s; without any
#: reader, after which all memory is released.
IDLE_S: Final = 300.0
#: Views with many records are encoded only while a reader is there. The others cost nearly nothing.
_LARGE: Final = frozenset({"changes", "partitions"})
#: Delay after an unexpected exception, s.
_FAILED_DELAY_S: Final = 1.0
#: Delay before a log that was just truncated is read again, s: about that of a scan.
_TRUNCATED_DELAY_S: Final = 0.02
#: Positions that are known to have been missing, at most. Readers that left are among them.
_MISSED_MAX: Final = 1000

_Made = tuple[Piece, dict[str, list[EncodedBatch]]]


class ViewMaker:
    """The batches of all views over one metadata log. One task runs :meth:`run`."""

    def __init__(
        self,
        partition: LogPartition,
        reports: Reports,
        *,
        cache_bytes: int,
        schemas: bool = False,
    ) -> None:
        self.partition: Final = partition
        self.counts = ViewCounts()
        self._reports = reports
        self._made = Callbacks()
        self._schemas = schemas
        self._chunks = Chunks(cache_bytes)
        self._encoder: ViewEncoder | None = None
        self._cluster_id = ""
        #: Folds of the log, the least recently used first.
        self.cursors: list[ViewCursor] = []
        #: Positions of readers for which batches have to be made, the oldest first.
        self.demands: dict[tuple[str, int], None] = {}
        self._missed: dict[tuple[str, int], None] = {}  # positions of reads that missed the cache
        self._wake = trio.Event()
        self._read_at: dict[str, float] = {}  # view -> when it was read last
        # The log that the chunks were made of: its start, and the last record before an offset.
        self._origin = (0, 0)
        self._end, self._end_epoch = 0, -1
        self._objects = FoldedObjects()
        self._near = False  # the piece is for a demand that needs no other
        self._overflow: int | None = None

    def on_made(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` on the event loop when there are new batches; return the function that
        unsubscribes.
        """
        return self._made.add(callback)

    @property
    def available(self) -> bool:
        """Whether the log leads to a state: it begins at offset 0, or with a snapshot's records."""
        partition = self.partition
        return partition.log_start_offset == 0 or partition.snapshot_end > 0

    @property
    def failed(self) -> bool:
        """Whether a record has more changes than one record has view offsets (2^24). Views end
        before it.
        """
        return self._overflow is not None

    @property
    def start(self) -> int:
        """The first offset of the views."""
        return offsets.of_snapshot(self.partition.snapshot_end)

    def collect(self, view: str, offset: int, bytes_max: int) -> Collected:
        """Return the batches of a view from ``offset`` on that are in the cache, and request the
        next ones from the task.
        """
        self._read_at[view] = trio.current_time()
        self._check()
        found = self._chunks.collect(view, offset, bytes_max)
        end = offsets.at(self.partition.high_watermark)
        if found.end < end and not found.is_full and not self.failed:
            self.demands.setdefault((view, found.end))
            self._wake.set()
            if not found.batches:
                self._count_miss(view, offset)
        return found

    def read(self, view: str, offset: int, bytes_max: int) -> Collected:
        """As :meth:`collect`, for a response to the reader. It counts as a hit if the reader did
        not wait for it.
        """
        found = self.collect(view, offset, bytes_max)
        if found.batches:
            waited = (view, offset) in self._missed
            self._missed.pop((view, offset), None)
            self.counts.hits += not waited
        return found

    def _count_miss(self, view: str, offset: int) -> None:
        """Count a read that waits once, however often it is tried."""
        if (view, offset) not in self._missed:
            if len(self._missed) >= _MISSED_MAX:
                self._missed.clear()
            self._missed[view, offset] = None
            self.counts.misses += 1

    async def run(self) -> None:
        """Make the batches that :attr:`demands` names, for ever."""
        while True:
            with trio.move_on_after(IDLE_S if self.cursors else float("inf")):
                await self._wake.wait()
            self._wake = trio.Event()
            self._forget_views()
            while self.demands:
                try:
                    await self._make_next()
                except Exception as error:
                    self._reports.bug("view not made", error)
                    await self._release(self.cursors)
                    await trio.sleep(_FAILED_DELAY_S)
                self._count_kept()
                self._made()
            if not self._read_at:
                self._chunks.clear()
                self._missed.clear()
                await self._release(self.cursors)
            self._count_kept()

    def _forget_views(self) -> None:
        now = trio.current_time()
        self._read_at = {view: last for view, last in self._read_at.items() if now - last < IDLE_S}

    def _count_kept(self) -> None:
        self.counts.entries, self.counts.size = len(self._chunks), self._chunks.size

    # --- one piece
    # ---------------------------------------------------------------------------------------------

    async def _make_next(self) -> None:
        """Make a piece for the oldest demand, or in turn for one that needs a single piece.

        Only the oldest demand may need another cursor, so that readers which are far apart do not
        take the cursors from each other before they have served any of them.
        """
        demand = next(iter(self.demands))
        positions = {one.position for one in self.cursors}
        self._near = not self._near
        if self._near:
            demand = next((one for one in self.demands if one[1] in positions), demand)
        done = True
        try:
            done = await self._make(*demand)
        finally:
            if done:
                self.demands.pop(demand, None)

    async def _make(self, view: str, offset: int) -> bool:
        """Make one piece on the way to ``offset``; True if that is made, or cannot be now."""
        self._check()
        if self._is_made(view, offset) or offset < self.start:
            return True
        cursor = await self._cursor(offset)
        data: Sequence[FileRange | bytes | memoryview] = ()
        read: Read | None = None
        if cursor.is_hungry:
            if cursor.next_offset >= self.partition.high_watermark:
                return True
            try:
                read = self.partition.read(cursor.next_offset, _READ_BYTES)
            except OffsetOutOfRange:
                await self._release([cursor])
                return True
            data = read.chunks
            if not read.size:  # the file was truncated, and is scanned again soon
                await trio.sleep(_TRUNCATED_DELAY_S)
                return True
        views = [one for one in VIEWS if one not in _LARGE or one in self._read_at]
        encoder = self._current_encoder()
        try:
            piece, batches = await trio.to_thread.run_sync(self._step, cursor, data, views, encoder)
        except ViewOverflow as error:
            self._overflow = cursor.position
            self._reports.report("views end", error=str(error))
            return True
        finally:
            if read is not None:
                read.release()
        cursor.note_end(self.partition.high_watermark)
        for notice in cursor.take_notices():
            self._reports.report("record not applied", error=notice)
        self._check()
        # A piece of a log that began elsewhere may extend over the state of the snapshot that the
        # log begins with now, which it does not have.
        is_of_this_log = cursor.origin == self._origin or piece.first >= self.start
        if encoder is self._encoder and is_of_this_log:
            self._chunks.add(Chunk(piece.first, piece.end, batches))
            if cursor.next_offset > self._end:
                self._end, self._end_epoch = cursor.next_offset, cursor.epoch
        return self._is_made(view, offset)

    def _is_made(self, view: str, offset: int) -> bool:
        return self._chunks.collect(view, offset, 0).end > offset

    def _step(
        self,
        cursor: ViewCursor,
        data: Sequence[FileRange | bytes | memoryview],
        views: Sequence[str],
        encoder: ViewEncoder,
    ) -> _Made:
        """Fold and encode, in a thread."""
        with collector_paused():
            if data:
                cursor.feed(content(data))
            piece = cursor.step()
            made = {
                view: list(encoder.batches(view, piece.changes, piece.complete)) for view in views
            }
        self._objects.made(len(piece.changes), is_building=not cursor.has_caught_up)
        return Piece(piece.first, piece.end, []), made

    def _current_encoder(self) -> ViewEncoder:
        """Return the encoder. An observer learns the id of the cluster from the quorum."""
        if self._encoder is None or self._cluster_id != self.partition.cluster_id:
            self._cluster_id = self.partition.cluster_id
            self._chunks.clear()
            self._encoder = ViewEncoder(self._cluster_id, schemas=self._schemas)
        return self._encoder

    # --- the log
    # ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Drop what was made of records that the log no longer has."""
        partition = self.partition
        origin = partition.log_start_offset, partition.snapshot_end
        if origin != self._origin:
            self._origin = origin
            self._chunks.keep(self.start)
        if self._end and not self._has(self._end, self._end_epoch):
            self._chunks.clear()
            self._end, self._overflow = 0, None

    def _has(self, next_offset: int, epoch: int) -> bool:
        """Whether the record before ``next_offset`` is that of ``epoch``: then all before it are
        the same, too (KIP-101).
        """
        partition = self.partition
        return (
            next_offset <= partition.high_watermark and partition.epoch_at(next_offset - 1) == epoch
        )

    def _is_valid(self, cursor: ViewCursor) -> bool:
        if cursor.origin != self._origin:
            # The records below the end of a snapshot are others now, perhaps of the same epoch.
            read_up_to = max(*cursor.origin, *self._origin)
            if cursor.next_offset < read_up_to or cursor.position < self.start:
                return False
        elif cursor.next_offset < max(cursor.origin):
            return True  # it is still in the snapshot
        return cursor.epoch < 0 or self._has(cursor.next_offset, cursor.epoch)

    async def _cursor(self, offset: int) -> ViewCursor:
        """Return the cursor that is nearest below ``offset``, or one at the start of the log."""
        await self._release([one for one in self.cursors if not self._is_valid(one)])
        below = [one for one in self.cursors if one.position <= offset]
        if below:
            cursor = max(below, key=lambda one: one.position)
            self.cursors.remove(cursor)
        else:
            await self._release(self.cursors[: 1 - _CURSORS_MAX])
            cursor = ViewCursor(*self._origin)
        self.cursors.append(cursor)
        return cursor

    async def _release(self, cursors: Sequence[ViewCursor]) -> None:
        """Drop cursors. Freeing a state of a large cluster takes a while: in a thread."""
        if cursors:
            gone = [one.image for one in cursors]
            self.cursors = [one for one in self.cursors if one not in cursors]
            del cursors
            await trio.to_thread.run_sync(release_incrementally, gone)
