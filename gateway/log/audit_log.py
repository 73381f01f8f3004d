"""The changes that this node carried out, in segments of Kafka's format: appended, synced a moment later, bounded.

Blocking. What changes something is for one thread at a time; what ``unsynced`` gives may be synced beside
it. What values mean it does not know. Unlike the metadata log nothing here is anybody's to agree on: records survive the
process as soon as they are written, and the machine once they are synced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from gateway.log.batch_check import Tail, check_batches
from gateway.log.disk import Disk, DiskFile, doing
from gateway.log.errors import DiskFailed, LogFailed
from gateway.log.file_names import segment_name
from gateway.log.listing import list_directory
from gateway.log.recovery import delete_segment
from gateway.log.segment import TIME_INDEX_SUFFIX, Segment, SegmentScan, scan_segment
from gateway.log.segment_index import TIME_ENTRY
from kwire.records import Record, encode_batch

#: A batch holds no more than this of values, bytes, so that a reader need not take more at once.
_BATCH_BYTES_MAX: Final = 1024 * 1024
#: Every node leads its own partition for ever.
EPOCH: Final = 0
_INDEX_INTERVAL_BYTES: Final = 4096
#: Suffix of what is kept of a segment that could not be read.
DAMAGED: Final = ".damaged"


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Sizes in bytes, times in ms; a negative retention keeps everything. ``fsync``: as in ``LogSettings``."""

    segment_bytes: int = 16 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 90 * 24 * 3_600_000
    fsync: bool = True


class Written(NamedTuple):
    """A change: when it was committed, ms since the epoch, and what is told of it."""

    timestamp: int
    value: bytes


@dataclass(slots=True)
class Unsynced:
    """Everything before ``end_offset`` is in ``file``, or was synced before. To be synced once, in any thread."""

    file: DiskFile
    end_offset: int
    disk: Disk

    def sync(self) -> int:
        """Bring it to disk; returns the end offset. Raises SyncFailed."""
        try:
            self.disk.sync(self.file)
        finally:
            self.file.close()
        return self.end_offset


class AuditLog:
    """The log in ``directory``, which is made if need be; whoever opens it is alone in it.

    ``problems``: sentences on what was found and repaired. Raises DiskFailed, as every change does; where that leaves the
    files in doubt everything after it raises LogFailed: close the log, and open it again.
    """

    def __init__(self, directory: Path, settings: AuditSettings, disk: Disk | None = None) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self._settings = settings
        self._disk = disk or Disk(fsync=settings.fsync)
        self._failed = ""
        self._disk.make_directory(directory)
        self._active = self._recover()
        self.flushed = self._active.end_offset  #: everything before it is on disk

    @property
    def failed(self) -> bool:
        """Must it be opened again before anything else?"""
        return bool(self._failed)

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._active.end_offset

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Written]) -> None:
        """Write all of them, in one piece; a crash of the process does not lose them. Raises DiskFailed, LogFailed.

        It takes no longer than writing to the page cache does: who calls it sees to ``roll``.
        """
        self._ready()
        data = memoryview(b"".join(self._batches(changes)))
        checked = check_batches(data, Tail(self.end_offset, EPOCH))
        assert checked.end == len(data), "what we have made is whole, and follows on"
        if not self._active.has_room_for(checked.batches[-1], self._active.size + len(data)):
            self.roll()  # it could not be rolled for long: the indexes cannot tell of more
        try:
            self._active.append(data, checked.batches)
        except BaseException as error:
            if self._active.torn or not isinstance(error, DiskFailed):
                self._failed = str(error)
            raise

    def _batches(self, changes: Sequence[Written]) -> Iterator[bytes]:
        part: list[Record] = []
        size = 0
        for offset, change in enumerate(changes, self.end_offset):
            if part and size + len(change.value) > _BATCH_BYTES_MAX:
                yield encode_batch(part, partition_leader_epoch=EPOCH)
                part, size = [], 0
            part.append(Record(offset=offset, timestamp=change.timestamp, value=change.value))
            size += len(change.value)
        yield encode_batch(part, partition_leader_epoch=EPOCH)

    def unsynced(self) -> Unsynced | None:
        """What was written since the last sync, to be synced beside further writes; None if nothing was. Raises DiskFailed."""
        if self.end_offset == self.flushed:
            return None
        path = self.directory / segment_name(self._active.base_offset)
        with doing("open", path):
            # With a descriptor of its own: the segment may be closed meanwhile.
            return Unsynced(DiskFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC)), self.end_offset, self._disk)

    def synced(self, end_offset: int) -> None:
        """Everything before it is on disk."""
        self.flushed = max(self.flushed, end_offset)

    def close(self) -> None:
        """Bring everything to disk. Raises DiskFailed; the files are closed then too."""
        try:
            if not self._failed:
                self._active.seal()
                self.flushed = self._active.end_offset
        finally:
            self._failed = self._failed or "it was closed"
            self._active.close()

    # --- what comes and goes ----------------------------------------------------------------------------------------------------

    def is_full(self, now_ms: int) -> bool:
        """Is it time for a new segment, by the size of the last one or the age of what it begins with?"""
        first = self._active.first_timestamp
        aged = first is not None and first < now_ms - self._settings.segment_ms
        return self._active.size >= self._settings.segment_bytes or aged

    def roll(self) -> None:
        """Bring the last segment to disk, and begin the next. Raises DiskFailed, LogFailed."""
        self._ready()
        with self._changing():
            old = self._active
            old.seal()
            self._active = self._create(old.end_offset)
            self.flushed = old.end_offset
            old.close()

    def clean(self, now_ms: int) -> list[str]:
        """Delete whole segments: the oldest while all are too large, then those whose records are all too old.

        Returns their names. A full or old active segment is followed by the next first. Raises DiskFailed, LogFailed.
        """
        self._ready()
        if self.is_full(now_ms):
            self.roll()
        deleted: list[str] = []
        with self._changing():
            sizes = {base: (self.directory / segment_name(base)).stat().st_size for base in self._bases()}
            for base in list(sizes)[:-1]:
                too_large = 0 <= self._settings.retention_bytes < sum(sizes.values())
                if not too_large and not self._is_too_old(base, now_ms):
                    break
                deleted.append(delete_segment(self.directory, self._disk, base))
                del sizes[base]
        return deleted

    def set_aside(self, end_offset: int) -> list[str]:
        """Take segments that begin at or before ``end_offset`` out of the log, because it cannot be read any further there.

        What comes behind is the log from now on; they are kept under another name. Returns that of each. Raises DiskFailed.
        """
        self._ready()
        aside: list[str] = []
        with self._changing():
            if self._active.base_offset <= end_offset:
                self.roll()
            for base in self._bases():
                if base <= end_offset and base != self._active.base_offset:
                    path = self.directory / segment_name(base)
                    self._disk.rename(path, path.with_name(path.name + DAMAGED))
                    delete_segment(self.directory, self._disk, base)  # the indexes
                    aside.append(path.name + DAMAGED)
            self._disk.sync_directory(self.directory)
        return aside

    # --- inside -------------------------------------------------------------------------------------------------------

    def _recover(self) -> Segment:
        """The newest segment, its unfinished end cut off; an empty one where there is none."""
        with doing("read", self.directory):
            bases = self._bases()
            if not bases:
                return self._create(0)
            scan = scan_segment(self.directory, bases[-1], _INDEX_INTERVAL_BYTES, EPOCH)
            self._tell_of_cut(scan)
            segment = Segment(self._disk, self.directory, scan)
        try:
            segment.flush()
        except BaseException:
            segment.close()
            raise
        return segment

    def _tell_of_cut(self, scan: SegmentScan) -> None:
        if scan.file_size <= scan.size:
            return
        path = self.directory / segment_name(scan.base_offset)
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        kept = ""
        if scan.fault is not None:  # no unfinished write looks so, unless the machine stopped; whole batches may be behind it
            copy = path.with_name(path.name + DAMAGED)
            self._disk.replace(copy, path.read_bytes())
            kept = f"; the file as it was is kept as {copy.name}"
        self.problems.append(f"{path}: {scan.file_size - scan.size} bytes from byte {scan.size} on cut off: {why}{kept}")

    def _bases(self) -> list[int]:
        return [base for base, _ in list_directory(str(self.directory)).segments]

    def _ready(self) -> None:
        if self._failed:
            raise LogFailed(f"the log in {self.directory} cannot be changed: {self._failed}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        try:
            with doing("change", self.directory):
                yield
        except BaseException as error:
            self._failed = str(error)
            raise

    def _is_too_old(self, base: int, now_ms: int) -> bool:
        """Is the last record of a closed segment older than all that is to be kept?"""
        keep_ms = self._settings.retention_ms
        return keep_ms >= 0 and _newest(self.directory / segment_name(base)) < now_ms - keep_ms

    def _create(self, base_offset: int) -> Segment:
        return Segment.create(self._disk, self.directory, base_offset, _INDEX_INTERVAL_BYTES)


def _newest(segment: Path) -> int:
    """The largest timestamp in a closed segment, ms, by its time index; where that was lost, when the file was last changed."""
    with contextlib.suppress(FileNotFoundError):
        entries = segment.with_suffix(TIME_INDEX_SUFFIX).read_bytes()
        if len(entries) >= TIME_ENTRY.size:
            return int(TIME_ENTRY.unpack(entries[-TIME_ENTRY.size :])[0])
    return segment.stat().st_mtime_ns // 1_000_000
