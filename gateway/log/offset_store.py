"""Committed offsets on disk: a compacted log of coordinator records in one segment file, as Kafka's ``__consumer_offsets``.

Blocking, for one thread at a time. It keeps the newest value of each key and does not know what keys and values mean. A
record is safe when ``append`` has returned: it was written in a batch with a checksum and the file was synced.
``kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log`` shows what is in it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kwire.errors import DecodeError
from kwire.records import Record, RecordBatch, decode_batch, encode_batch

#: Directory below the server's own, and the segment in it: Kafka's names.
DIRECTORY: Final = "__consumer_offsets-0"
SEGMENT: Final = "00000000000000000000.log"
#: Suffix of a segment that is being rewritten (Kafka's too); one that is found at start was never finished.
CLEANED: Final = ".cleaned"
#: Suffix of the copy that is kept of a segment with damage in its middle.
DAMAGED: Final = ".damaged"
LOCK: Final = ".lock"

#: One batch holds no more than this, so that a large rewrite is read back in pieces.
_BATCH_BYTES_MAX: Final = 1024 * 1024
_BATCH_SPAN_MAX: Final = 2**31 - 1  # of offsets: their deltas are int32
#: Leader epoch 0 and format 2 in the header of every batch that we write, and where they stand in it.
_MARK: Final = b"\0\0\0\0\2"
_MARK_AT: Final = 12
#: A record's bytes besides key and value (about): lengths, deltas, its share of a batch header.
_RECORD_OVERHEAD: Final = 24
_sync = getattr(os, "fdatasync", os.fsync)


class StoreLockedError(OSError):
    """Another process has this store open."""


class _Kept(NamedTuple):
    offset: int
    timestamp: int
    value: bytes


class OffsetStore:
    """The store in ``directory``, which is made if need be; whoever opens it is alone in it until ``close``.

    ``compact_bytes_min``: the segment is not rewritten while it is smaller (bytes). ``rewrite``: begin with a new file, for
    when the last write failed: after that nobody knows which of its pages are on disk. Raises StoreLockedError, OSError.

    ``problems``: sentences on what was wrong with the file, for the log.
    """

    def __init__(self, directory: Path, *, compact_bytes_min: int = 4 * 1024 * 1024, rewrite: bool = False) -> None:
        self.problems: list[str] = []
        self._directory = directory
        self._path = directory / SEGMENT
        self._compact_bytes_min = compact_bytes_min
        self._live: dict[bytes, _Kept] = {}  # in the order of offsets
        self._live_bytes = 0
        self._next_offset = 0
        self._size = 0
        self._file = -1
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(directory)
        try:
            self._open(rewrite)
        except BaseException:
            self.close()
            raise

    def records(self) -> list[tuple[bytes, bytes]]:
        """Every key with its newest value, oldest first."""
        return [(key, kept.value) for key, kept in self._live.items()]

    def append(self, records: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
        """Write these records (a value of None deletes its key) and wait until they are on disk.

        One sync however many they are: callers collect what came in while the last one ran. Raises OSError; then nothing
        more can be appended, and the store is to be closed and opened anew with ``rewrite``.
        """
        if not records:
            return
        if self._file < 0:
            raise OSError(errno.EBADF, "the store was closed, or a write to it failed", str(self._path))
        made = [
            Record(offset=self._next_offset + i, timestamp=timestamp_ms, key=key, value=value)
            for i, (key, value) in enumerate(records)
        ]
        data = b"".join(_batches(made))
        try:
            _write_all(self._file, data)
            _sync(self._file)
        except OSError:
            self._close_file()
            raise
        self._size += len(data)
        self._apply(made)

    @property
    def wants_compaction(self) -> bool:
        """Is most of the file made of what newer records replaced?"""
        return self._size > max(self._compact_bytes_min, 4 * self._live_bytes)

    def compact(self) -> None:
        """Write what is live to a new file and put it in the old one's place; a crash leaves one of the two, whole.

        Raises OSError; if the new file is not in place then, the old one goes on.
        """
        path = self._path.with_name(SEGMENT + CLEANED)
        kept = (Record(offset=k.offset, timestamp=k.timestamp, key=key, value=k.value) for key, k in self._live.items())
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = 0
            for batch in _batches(kept):
                _write_all(file, batch)
                size += len(batch)
            os.fsync(file)
            os.rename(path, self._path)
        except OSError:
            os.close(file)
            raise
        self._close_file()
        self._file, self._size = file, size
        _sync_directory(self._directory)

    def close(self) -> None:
        """Let another process have it. Everything appended is on disk already."""
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, rewrite: bool) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path.with_name(SEGMENT + CLEANED))
        is_new = not self._path.exists()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        data = self._path.read_bytes()
        end, damages = self._read(data)
        if end < len(data):
            # What was being written when the process or the machine stopped: nobody was told that it was kept.
            self.problems.append(f"{self._path}: {len(data) - end} bytes of an unfinished write cut off at byte {end}")
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        self._size = end
        if damages:
            self._keep_damaged()
        if damages or rewrite:
            self.compact()
        if is_new:
            _sync_directory(self._directory)

    def _read(self, data: bytes) -> tuple[int, int]:
        """Take in every whole batch; returns where they end, and how often something unreadable was between them."""
        position = end = damages = 0
        while (batch := _next_batch(data, position, self._next_offset)) is not None:
            if batch.header.position > position:
                damages += 1
                self.problems.append(
                    f"{self._path}: bytes {position} to {batch.header.position} are damaged and the records in them lost; "
                    f"a copy of the file is kept as {SEGMENT}{DAMAGED}"
                )
            self._apply(batch.records)
            position = end = batch.header.end
        return end, damages

    def _keep_damaged(self) -> None:
        copy = self._path.with_name(SEGMENT + DAMAGED)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)
        os.link(self._path, copy)

    def _apply(self, records: Iterable[Record]) -> None:
        for record in records:
            self._next_offset = record.offset + 1
            if record.key is None:
                continue
            before = self._live.pop(record.key, None)
            if before is not None:
                self._live_bytes -= _RECORD_OVERHEAD + len(record.key) + len(before.value)
            if record.value is not None:
                self._live[record.key] = _Kept(record.offset, record.timestamp, record.value)
                self._live_bytes += _RECORD_OVERHEAD + len(record.key) + len(record.value)

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _next_batch(data: bytes, position: int, least_offset: int) -> RecordBatch | None:
    """The batch at ``position``; or, if that cannot be read, the next one anywhere behind it; None at the end.

    Behind an unfinished write there is none. Old bytes that look like a batch are told by their offset.
    """
    try:
        return decode_batch(data, position)
    except DecodeError:
        pass
    found = data.find(_MARK, position + _MARK_AT + 1)
    while found >= 0:
        try:
            batch = decode_batch(data, found - _MARK_AT)
        except DecodeError:
            batch = None
        if batch is not None and batch.header.base_offset >= least_offset:
            return batch
        found = data.find(_MARK, found + 1)
    return None


def _batches(records: Iterable[Record]) -> Iterator[bytes]:
    """The records as batches of a size that can be read at once."""
    part: list[Record] = []
    size = 0
    for record in records:
        if part and (size >= _BATCH_BYTES_MAX or record.offset - part[0].offset > _BATCH_SPAN_MAX):
            yield encode_batch(part, partition_leader_epoch=0)
            part, size = [], 0
        part.append(record)
        size += _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    if part:
        yield encode_batch(part, partition_leader_epoch=0)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _lock(directory: Path) -> int:
    path = directory / LOCK
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        reason = "another server keeps its committed offsets here; give this one a state.dir of its own"
        raise StoreLockedError(errno.EAGAIN, reason, str(path)) from None
    return file


def _sync_directory(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
