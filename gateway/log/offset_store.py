"""Stores committed offsets in a compacted log of coordinator records, in one segment file.

Blocking, for one thread at a time. It keeps the newest value of each key and does not know what
keys and values mean (``gateway.groups``). A record is safe when ``append`` has returned: it was
written in a batch with a CRC, and the file was synced. The format is that of Kafka's
``__consumer_offsets``: ``kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log``
prints it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.log.end_checkpoint import read_end, remove_end, write_end
from gateway.sizes import MIB
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import open_regular
from kwire.records import Header, Record, RecordBatch, decode_batch, encode_batch

#: Directory below the server's own, and the segment in it: Kafka's names.
DIRECTORY: Final = "__consumer_offsets-0"
SEGMENT: Final = "00000000000000000000.log"
#: Suffix of a segment that is being rewritten, as Kafka's. One that is found at start is
#: unfinished.
CLEANED: Final = ".cleaned"
#: Suffix of the copy that is kept of a segment with damage in its middle.
DAMAGED: Final = ".damaged"
LOCK: Final = ".lock"
#: Record header with the principal that is charged for the record. Kafka's tools print headers and
#: need none.
OWNER_HEADER: Final = "owner"

#: One batch holds no more than this, so that a large rewrite is read back in pieces.
_BATCH_BYTES_MAX: Final = MIB
_BATCH_SPAN_MAX: Final = 2**31 - 1  # of offsets: their deltas are int32
#: Leader epoch 0 and magic 2, which every batch of this store has at this position of its header.
_MARK: Final = b"\0\0\0\0\2"
_MARK_AT: Final = 12
#: Milliseconds between two updates of the synced end while records are appended.
_END_INTERVAL_MS: Final = 5000
#: A record's bytes besides key and value (about): lengths, deltas, its share of a batch header.
_RECORD_OVERHEAD: Final = 24
_sync = getattr(os, "fdatasync", os.fsync)


class StoreLockedError(OSError):
    """Another process has this store open."""


class _LiveRecord(NamedTuple):
    """The newest record of a key."""

    offset: int
    timestamp: int
    value: bytes
    owner: str = ""


class OffsetStore:
    """The store in ``directory``, which is created if it is missing, exclusively until ``close``.

    ``compact_bytes_min``: a smaller segment is not compacted (bytes). ``rewrite``: begin with a new
    file, after a failed write: which pages of the old file are on disk is then unknown. Raises
    StoreLockedError, OSError.

    ``problems``: one sentence for each fault found in the file, for the server's log.
    """

    def __init__(
        self, directory: Path, *, compact_bytes_min: int = 4 * MIB, rewrite: bool = False
    ) -> None:
        self.problems: list[str] = []
        self._directory = directory
        self._path = directory / SEGMENT
        self._compact_bytes_min = compact_bytes_min
        self._live: dict[bytes, _LiveRecord] = {}  # ordered by offset
        self._names: dict[str, str] = {}  # owners, each once
        self._live_bytes = 0
        self._next_offset = 0
        # End offset of the file: below the next offset after a rewrite that dropped deleted keys.
        self._end = 0
        # When the synced end was last stored; negative until something was appended.
        self._end_written_ms = -_END_INTERVAL_MS
        self._size = 0
        self._file = -1
        for missing in (*reversed(directory.parents), directory):
            missing.mkdir(mode=0o700, exist_ok=True)
        # Before the first read: another process could be rewriting the file.
        self._lock = _lock(directory)
        try:
            self._open(rewrite)
        except BaseException:
            self.close()
            raise

    def records(self) -> list[tuple[bytes, bytes]]:
        """Return every key with its newest value, oldest first."""
        return [(key, live.value) for key, live in self._live.items()]

    def owners(self) -> dict[bytes, str]:
        """Return the principal that is charged for each key, where one is known."""
        return {key: live.owner for key, live in self._live.items() if live.owner}

    def append(
        self,
        records: Sequence[tuple[bytes, bytes | None]],
        timestamp_ms: int,
        *,
        owners: Mapping[bytes, str] = MappingProxyType({}),
    ) -> None:
        """Write these records (a value of None deletes its key); return when they are on disk.

        ``owners``: key -> principal that is charged for it, stored in a header of the record.

        One sync however many records: the caller collects what arrives during the previous one.
        Raises OSError; nothing more can be appended then, and the caller must close the store and
        open it with ``rewrite``.
        """
        if not records:
            return
        # Closed after a failed write: what the disk holds of it is not known.
        if self._file < 0:
            raise OSError(
                errno.EBADF, "the store was closed, or a write to it failed", str(self._path)
            )
        appended = [
            Record(
                offset=self._next_offset + i,
                timestamp=timestamp_ms,
                key=key,
                value=value,
                headers=_headers(owners.get(key, "")),
            )
            for i, (key, value) in enumerate(records)
        ]
        data = b"".join(_batches(appended))
        try:
            _write_all(self._file, data)
            # One sync for all: committed offsets are acknowledged when ``append`` returns.
            _sync(self._file)
        except OSError:
            # After a failed sync the pages count as clean, so a second one would succeed for data
            # that is lost.
            self._close_file()
            raise
        self._size += len(data)
        # After the sync: memory never has an offset that a crash could take back.
        self._apply(appended)
        assert self._next_offset == appended[-1].offset + 1
        self._end = self._next_offset
        # ``0 <=``: also after the wall clock was set back.
        if not 0 <= timestamp_ms - self._end_written_ms < _END_INTERVAL_MS:
            self._end_written_ms = timestamp_ms
            write_end(self._directory, self._end)

    @property
    def needs_compaction(self) -> bool:
        """Whether most of the file is records that newer ones replaced."""
        # Four times: a rewrite then costs a fraction of the appends that made it necessary.
        return self._size > max(self._compact_bytes_min, 4 * self._live_bytes)

    def compact(self) -> None:
        """Write the live records to a new file and replace the old one; a crash leaves one of the
        two, whole.

        Raises OSError. The old file stays in use if the new one did not replace it.
        """
        path = self._path.with_name(SEGMENT + CLEANED)
        live = (
            Record(
                offset=k.offset,
                timestamp=k.timestamp,
                key=key,
                value=k.value,
                headers=_headers(k.owner),
            )
            for key, k in self._live.items()
        )
        # Mode 0600: the file names groups and what they read, which other users must not see.
        file = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        try:
            size = 0
            for batch in _batches(live):
                _write_all(file, batch)
                size += len(batch)
            os.fsync(file)
            remove_end(
                self._directory
            )  # deleted keys are gone from the new file: it may end earlier
            os.rename(path, self._path)
        except OSError:
            os.close(file)
            raise
        self._close_file()
        self._file, self._size = file, size
        _sync_directory(self._directory)
        self._end = next(reversed(self._live.values())).offset + 1 if self._live else 0
        write_end(self._directory, self._end)

    def close(self) -> None:
        """Release the lock and close the file. Everything appended is on disk already."""
        # Not after a failed write: what the file holds then is not known.
        if self._file >= 0 and self._end_written_ms >= 0:
            write_end(self._directory, self._end)
        self._close_file()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open(self, rewrite: bool) -> None:
        with contextlib.suppress(FileNotFoundError):
            # A rewrite that a crash interrupted: the old file is still the one in use.
            os.unlink(self._path.with_name(SEGMENT + CLEANED))
        # Before the open, which creates it.
        is_new = not self._path.exists()
        self._file = open_regular(str(self._path), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        data = self._path.read_bytes()
        # Read as a whole: compaction keeps the file within a few times the live records.
        end, damages = self._read(data)
        if end < len(data):
            # An append that a crash interrupted: no client was told that it succeeded.
            self.problems.append(
                f"{self._path}: {len(data) - end} bytes of an unfinished write cut off at byte "
                f"{end}"
            )
            # The next append would otherwise stand behind bytes that no reader gets past.
            os.ftruncate(self._file, end)
            os.fsync(self._file)
        self._size = end
        self._compare_end()
        if damages:
            # By a hard link: ``compact`` renames over the name, and the old file stays under the
            # new one.
            self._keep_damaged()
        if damages or rewrite:
            self.compact()
        # The sync of a file does not cover its name.
        if is_new:
            _sync_directory(self._directory)

    def _compare_end(self) -> None:
        """Report a log that ends before what was synced: a crash cannot do that."""
        synced, self._end = read_end(self._directory), self._next_offset
        # Reported and not refused: the groups can go on, and an operator knows why they begin
        # again.
        if synced is not None and self._next_offset < synced:
            self.problems.append(
                f"{self._path}: it ends at offset {self._next_offset}, but was synced up to "
                f"{synced}: it was cut, emptied or replaced, and the committed offsets behind that "
                "are lost; their groups begin again where auto.offset.reset says"
            )
            write_end(self._directory, self._next_offset)

    def _read(self, data: bytes) -> tuple[int, int]:
        """Load every whole batch; return (their end, number of unreadable ranges between them)."""
        position = end = damages = 0
        while (batch := _next_batch(data, position, self._next_offset)) is not None:
            if batch.header.position > position:
                damages += 1
                self.problems.append(
                    f"{self._path}: bytes {position} to {batch.header.position} are damaged and "
                    f"the records in them lost; a copy of the file is kept as {SEGMENT}{DAMAGED}"
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
            # A record without a key cannot be kept in a compacted log: no later record could
            # replace it.
            if record.key is None:
                continue
            # Popped and put back, so that the dict stays ordered by offset.
            before = self._live.pop(record.key, None)
            if before is not None:
                self._live_bytes -= _RECORD_OVERHEAD + len(record.key) + len(before.value)
            if record.value is not None:
                owner = self._owner_of(record.headers)
                self._live[record.key] = _LiveRecord(
                    record.offset, record.timestamp, record.value, owner
                )
                self._live_bytes += _RECORD_OVERHEAD + len(record.key) + len(record.value)

    def _owner_of(self, headers: Sequence[Header]) -> str:
        """Return the owner in the headers of a record; equal names share one string object."""
        for key, value in headers:
            if key == OWNER_HEADER and value:
                name = value.decode("utf-8", "replace")
                return self._names.setdefault(name, name)
        return ""

    def _close_file(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _next_batch(data: bytes, position: int, least_offset: int) -> RecordBatch | None:
    """Return the batch at ``position``, or else the next readable one behind it; None at the end.

    Behind an unfinished write there is none. A batch with an offset below ``least_offset`` is stale
    bytes of an earlier file.
    """
    try:
        return decode_batch(data, position)
    except DecodeError:
        pass
    # From the next byte on: the length of a damaged batch cannot be trusted.
    found = data.find(_MARK, position + _MARK_AT + 1)
    while found >= 0:
        try:
            batch = decode_batch(data, found - _MARK_AT)
        except DecodeError:
            batch = None
        # The CRC has been checked, so five bytes that happen to match are not taken for a batch.
        if batch is not None and batch.header.base_offset >= least_offset:
            return batch
        found = data.find(_MARK, found + 1)
    return None


def _batches(records: Iterable[Record]) -> Iterator[bytes]:
    """Encode the records in batches that a reader can hold in memory."""
    part: list[Record] = []
    size = 0
    for record in records:
        # Compaction keeps the offsets of records, so that those of two neighbours may lie far
        # apart.
        if part and (size >= _BATCH_BYTES_MAX or record.offset - part[0].offset > _BATCH_SPAN_MAX):
            yield encode_batch(part, partition_leader_epoch=0)
            part, size = [], 0
        part.append(record)
        size += _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    if part:
        yield encode_batch(part, partition_leader_epoch=0)


def _headers(owner: str) -> tuple[Header, ...]:
    return ((OWNER_HEADER, owner.encode("utf-8", "replace")),) if owner else ()


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _lock(directory: Path) -> int:
    path = directory / LOCK
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # ``flock`` and not a record lock as for Kafka's directory: no JVM opens this store, and a
        # second open in the same process is refused, too.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        reason = (
            "another server keeps its committed offsets here; give this one a state.dir of its own"
        )
        raise StoreLockedError(errno.EAGAIN, reason, str(path)) from None
    return file


def _sync_directory(directory: Path) -> None:
    file = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
