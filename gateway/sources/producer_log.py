"""Keeps the producers of a partition that holds data, and the files that follow from its batches:
``OFFSET.snapshot`` and ``.txnindex``.

A start takes the newest snapshot below the recovery point or at the beginning of a segment, and
folds the batches from there on. The entries of the indexes below were synced before the snapshot
was written; the others are made anew. A snapshot that is missing or damaged costs time, never a
producer. Source: ``ProducerStateManager``, ``UnifiedLog.rebuildProducerState``,
``LocalLog.collectAbortedTransactions``.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.broker.produce.marker import Marker, read_marker
from gateway.broker.produce.producer_snapshot import decode_snapshot, encode_snapshot
from gateway.broker.produce.producer_state import ProducerStates
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import DiskFailed
from gateway.log.segments.transaction_index import (
    TXN_INDEX_SUFFIX,
    AbortedTxn,
    TransactionIndex,
    encode_index,
    read_index,
)
from gateway.ports.replicas import ActiveProducer
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import parse_segment_name
from kwire.metadata_log.open_file import read_regular

if TYPE_CHECKING:
    from gateway.broker.produce.producer_state import CompletedTxn
    from kwire.records.header import BatchHeader, Buffer

SNAPSHOT_SUFFIX: Final = ".snapshot"
#: Behind every offset.
_NO_OFFSET: Final = 1 << 63
_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot", re.ASCII)


class ProducerLog:
    """The producers of the log in ``directory``. ``aborted`` and ``stable_end`` are for the event
    loop, everything else for the thread that changes the log.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.states = ProducerStates()
        self._directory = directory
        self._disk = disk
        self._bases: list[int] = [0]
        self._folds_from = 0
        self._written_at = 0  # the offset of the newest snapshot that is on disk
        self._found: dict[int, list[AbortedTxn]] = {}  # by segment, of those that are read
        #: Those that have entries, by segment in order.
        self._indexes: dict[int, TransactionIndex] = {}
        # Transactions that ended behind the high watermark: (first offset, offset of the marker),
        # in the order of their markers.
        self._undecided: deque[tuple[int, int]] = deque()

    # --- a start: begin, a fold of all batches, finish
    # ---------------------------------------------------------------------------------------------

    def begin(self, recovery_point: int = 0) -> int:
        """Take the newest snapshot that can be used, and return its offset: batches below it need
        not be folded. Everything below ``recovery_point`` is on disk. Raises DiskFailed.
        """
        with doing("read", self._directory):
            names = {entry.name for entry in self._directory.iterdir()}
            bases = (parse_segment_name(name) for name in names)
            self._bases = sorted(base for base in bases if base is not None) or [0]
            self._folds_from = self._bases[0]
            whole = self._first_without_index()
            offsets = (int(match[1]) for name in names if (match := _SNAPSHOT.fullmatch(name)))
            # A segment is on disk as a whole before the next one begins.
            trusted = (one for one in offsets if one <= recovery_point or one in self._bases[1:])
            for offset in sorted(trusted, reverse=True):
                if offset <= whole and self._take(offset):
                    break
        return self._folds_from

    def _first_without_index(self) -> int:
        """Return the first segment whose transaction index is damaged; without one, more than any
        offset.
        """
        for base in self._bases:
            if read_index(self._index_path(base), base) is None:
                return base
        return _NO_OFFSET

    def _take(self, offset: int) -> bool:
        try:
            states = decode_snapshot(read_regular(self._snapshot_path(offset)))
        except DecodeError:
            return False
        self.states, self._folds_from = ProducerStates(states), offset
        self._written_at = offset
        return True

    def fold(self, header: BatchHeader, data: Buffer) -> None:
        """Note a batch of the log, which is at ``header.position`` of ``data``."""
        if header.base_offset < self._folds_from or header.producer_id < 0:
            return
        completed = self.states.append(header, read_marker(header, data))
        self._note(completed)
        if completed is not None and completed.is_aborted:
            base = self._bases[bisect.bisect_right(self._bases, header.base_offset) - 1]
            self._found.setdefault(base, []).append(AbortedTxn(*completed[:4]))

    def finish(self, bases: Sequence[int], end_offset: int) -> None:
        """The log was read, has these segments, and ends at ``end_offset``: write the indexes that
        were wrong, and remove snapshots that describe nothing. Raises DiskFailed.
        """
        if list(bases) != self._bases:
            # The batches that were read lie below the log start, and are gone.
            self._bases, self._folds_from = list(bases), bases[0]
            self.states, self._found = ProducerStates(), {}
        with doing("read", self._directory):
            for base in self._bases:
                self._load_index(base)
            names = [entry.name for entry in self._directory.iterdir()]
        self._found = {}
        # As ``ProducerStateManager.removeStraySnapshots``, but for the one that was taken.
        self._remove_snapshots(names, {self._folds_from}, end_offset)

    def _load_index(self, base: int) -> None:
        path = self._index_path(base)
        before = read_index(path, base)
        entries = [one for one in before or () if one.last_offset < self._folds_from]
        entries += self._found.get(base, [])
        if entries != before:
            if entries:
                self._disk.replace(path, encode_index(entries))
            else:
                self._disk.remove(path)
        if entries:
            self._indexes[base] = TransactionIndex(path, len(encode_index(entries)))

    # --- appends
    # ---------------------------------------------------------------------------------------------

    def append(self, header: BatchHeader, marker: Marker | None = None) -> None:
        """Note a batch that is in the active segment. Raises DiskFailed: the index is then not what
        the log says, and the log has to be read again.
        """
        completed = self.states.append(header, marker)
        self._note(completed)
        if completed is None or not completed.is_aborted:
            return
        base = self._bases[-1]
        index = self._indexes.get(base)
        if index is None:
            index = self._indexes[base] = TransactionIndex(self._index_path(base))
        index.append(self._disk, AbortedTxn(*completed[:4]))

    def _note(self, completed: CompletedTxn | None) -> None:
        if completed is not None:
            self._undecided.append((completed.first_offset, completed.last_offset))

    def rolled(self, bases: Sequence[int]) -> None:
        """The log has these segments, and nothing in the last one. Raises DiskFailed."""
        sealed = self._indexes.get(self._bases[-1])
        if sealed is not None:
            sealed.seal(self._disk)
        self._bases = list(bases)
        self._indexes = {base: one for base, one in self._indexes.items() if base >= bases[0]}
        # After the index, which the next start does not read again if there is a snapshot.
        self._write_snapshot(bases[-1])

    def compacted(self, replaced: Sequence[int], bases: Sequence[int]) -> None:
        """A segment came in the place of those with the base offsets ``replaced``, and the log has
        ``bases``. Raises DiskFailed.
        """
        with doing("read", self._directory):
            entries = read_index(self._index_path(replaced[0]), replaced[0])
        indexes = {base: one for base, one in self._indexes.items() if base not in replaced}
        if entries:
            size = len(encode_index(entries))
            indexes[replaced[0]] = TransactionIndex(self._index_path(replaced[0]), size)
        self._bases = list(bases)
        # In one step, in order: readers go through them.
        self._indexes = dict(sorted(indexes.items()))

    def remove_snapshots_behind(self, offset: int) -> None:
        """The log is about to be cut at ``offset``: snapshots behind it would describe records that
        are gone, where others come. Raises DiskFailed.
        """
        with doing("read", self._directory):
            names = [entry.name for entry in self._directory.iterdir()]
        doomed = [name for name in names if _is_snapshot_behind(name, offset)]
        for name in doomed:
            self._disk.remove(self._directory / name)
        if doomed:
            self._disk.sync_directory(self._directory)

    def active(self) -> list[ActiveProducer]:
        """As ``WritablePartition.producers``."""
        return [
            ActiveProducer(
                one.producer_id,
                one.epoch,
                one.last_sequence,
                one.timestamp,
                one.coordinator_epoch,
                one.txn_first_offset,
            )
            for one in self.states.all()
        ]

    def close(self, end_offset: int | None = None) -> None:
        """Close the files; ``end_offset``: that of a log that is on disk as a whole, so that Kafka
        need not read it. Raises DiskFailed.
        """
        active = self._indexes.get(self._bases[-1])
        try:
            if active is not None and end_offset is not None:
                active.seal(self._disk)
        finally:
            if active is not None:
                active.close()
        # One at the end of an idle log is there already.
        if end_offset is not None and end_offset > max(self._bases[-1], self._written_at):
            self._write_snapshot(end_offset)

    def _write_snapshot(self, offset: int) -> None:
        # Without one a start reads more.
        with contextlib.suppress(DiskFailed):
            self.write_snapshot(offset, encode_snapshot(self.states.all()))

    # --- checkpoints
    # ---------------------------------------------------------------------------------------------

    def begin_checkpoint(self, recovery_point: int) -> tuple[bytes, list[str]]:
        """Return the content of a snapshot of now, and the suffixes of the files of the active
        segment that have to be on disk for it. Of the snapshots inside of segments the one at
        ``recovery_point`` stays, which the next start takes if this checkpoint is not made. Raises
        DiskFailed.
        """
        with doing("read", self._directory):
            names = [entry.name for entry in self._directory.iterdir()]
        self._remove_snapshots(names, {recovery_point}, _NO_OFFSET)
        suffixes = [TXN_INDEX_SUFFIX] if self._bases[-1] in self._indexes else []
        return encode_snapshot(self.states.all()), suffixes

    def write_snapshot(self, offset: int, content: bytes) -> None:
        """Write a snapshot durably, in any thread. Raises DiskFailed."""
        self._disk.replace(self._snapshot_path(offset), content)
        self._written_at = max(self._written_at, offset)

    def remove_snapshot(self, offset: int) -> None:
        """Remove the snapshot of a log that was cut below ``offset`` meanwhile. Raises
        DiskFailed.
        """
        self._disk.remove(self._snapshot_path(offset))
        if offset == self._written_at:
            self._written_at = 0

    def _remove_snapshots(self, names: Iterable[str], more: set[int], end_offset: int) -> None:
        """Remove snapshots that are neither at the beginning of a segment nor one of ``more``, and
        those beyond the end of the log.
        """
        kept = {*self._bases[1:], *more}
        for match in filter(None, map(_SNAPSHOT.fullmatch, names)):
            offset = int(match[1])
            if offset not in kept or offset > end_offset:
                self.remove_snapshot(offset)

    # --- readers
    # ---------------------------------------------------------------------------------------------

    def stable_end(self, start: int, high_watermark: int) -> int:
        """Return the last stable offset of a log that starts at ``start``
        (``UnifiedLog.lastStableOffset``). For the event loop.

        A transaction counts as open until its marker is committed.
        """
        while self._undecided and self._undecided[0][1] < high_watermark:
            self._undecided.popleft()
        oldest = self.states.first_unstable_offset
        if oldest is None and not self._undecided:
            return high_watermark
        unstable = [first for first, _ in tuple(self._undecided)]
        if oldest is not None:
            unstable.append(oldest)
        # The beginning of the transaction may have gone with an old segment.
        return min(max(min(unstable, default=high_watermark), start), high_watermark)

    @property
    def has_aborted(self) -> bool:
        """Whether any transaction was aborted, as far as the log goes back."""
        return bool(self._indexes)

    def aborted(self, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions that may have records from ``start`` to ``end``. Raises
        OSError.
        """
        indexes = list(self._indexes.items())
        # A segment whose successor begins at ``start`` or before it has no marker behind that.
        first = max(0, bisect.bisect_right(indexes, start, key=lambda one: one[0]) - 1)
        found: list[AbortedTxn] = []
        for _, index in indexes[first:]:
            # Retention may have deleted the segment a moment ago.
            with contextlib.suppress(FileNotFoundError):
                some, is_whole = index.collect(start, end)
                found += some
                if is_whole:
                    break
        return found

    def _index_path(self, base: int) -> Path:
        return self._directory / f"{base:020d}{TXN_INDEX_SUFFIX}"

    def _snapshot_path(self, offset: int) -> Path:
        return self._directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"


def _is_snapshot_behind(name: str, offset: int) -> bool:
    match = _SNAPSHOT.fullmatch(name)
    return match is not None and int(match[1]) > offset
