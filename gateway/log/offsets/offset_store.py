"""Stores committed offsets in a compacted log of coordinator records.

Blocking, for one thread at a time. It keeps the newest value of each key and does not know what
keys and values mean (``gateway.groups``). A record is safe when ``append`` has returned: it was
written in a batch with a CRC, and the file was synced. The format is that of Kafka's
``__consumer_offsets``: ``kafka-dump-log.sh --offsets-decoder --files 00000000000000000000.log``
prints it. Source: ``LogCleaner``, whose batches keep the offsets of their records; here they also
span the offsets of the records that are gone.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.log.files.directory_lock import DirectoryLock
from gateway.log.files.disk import Disk, doing
from gateway.log.files.errors import LogError
from gateway.log.files.synced_end import SyncedEnd
from gateway.log.offsets import offset_store_format
from gateway.log.partition.log_settings import LogSettings
from gateway.log.partition.roll_policy import rolls_when_told
from gateway.log.partition.salvage import EPOCH, gap
from gateway.log.partition.salvage_recovery import SalvageRecovery
from gateway.log.partition.unified_log import UnifiedLog
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import read_regular
from kwire.records import Header, Record, decode_batch, encode_batch, iter_batches

#: Directory below the server's own: Kafka's name.
DIRECTORY: Final = "__consumer_offsets-0"
#: Record header with the principal that is charged for the record. Kafka's tools print headers and
#: need none.
OWNER_HEADER: Final = "owner"

#: One batch holds no more than this, so that a large rewrite is read back in pieces.
_BATCH_BYTES_MAX: Final = MIB
#: Offsets of a batch or a segment: their deltas are int32.
_SPAN_MAX: Final = 2**31 - 1
#: Milliseconds between two updates of the synced end while records are appended.
_END_INTERVAL_MS: Final = 5000
#: A record's bytes besides key and value (about): lengths, deltas, its share of a batch header.
_RECORD_OVERHEAD: Final = 24
#: Suffixes of files that a crash left unfinished.
_LEFTOVERS: Final = ("*.tmp", "*.cleaned")
_CONSEQUENCE: Final = (
    "; the committed offsets in them are lost, and their groups begin again where "
    "auto.offset.reset says"
)


class _LiveRecord(NamedTuple):
    """The newest record of a key."""

    offset: int
    timestamp: int
    value: bytes
    owner: str = ""


class OffsetStore:
    """The store in ``directory``, which is created if it is missing, exclusively until ``close``.

    ``compact_bytes_min``: a smaller log is not compacted (bytes). ``rewrite``: begin with new
    files, after a failed write: which pages of the old ones are on disk is then unknown. ``disk``
    is for tests. Raises LogLocked, DiskFailed.

    ``problems``: one sentence for each fault found in the files, for the server's log.
    """

    def __init__(
        self,
        directory: Path,
        *,
        compact_bytes_min: int = 4 * MIB,
        rewrite: bool = False,
        disk: Disk | None = None,
    ) -> None:
        self.problems: list[str] = []
        self._directory = directory
        self._compact_bytes_min = compact_bytes_min
        self._live: dict[bytes, _LiveRecord] = {}  # ordered by offset
        self._names: dict[str, str] = {}  # owners, each once
        self._live_bytes = 0
        self._size = 0
        # When the synced end was last stored; negative until something was appended.
        self._end_written_ms = -_END_INTERVAL_MS
        disk = disk or Disk()
        disk.make_directory(directory)
        with contextlib.ExitStack() as undo:
            # Before the first read: another process could be rewriting the files.
            self._lock = DirectoryLock(directory, "state.dir")
            undo.callback(self._lock.release)
            self._synced_end = SyncedEnd(directory, disk, self.problems)
            undo.callback(self._synced_end.close)
            self._log = self._recover(disk)
            undo.callback(self._close_log)
            self._load()
            if rewrite:
                self.compact()
            self._synced_end.write(self._log.end_offset)
            undo.pop_all()

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
        Raises DiskFailed, LogFailed; the caller must then close the store and open it with
        ``rewrite``.
        """
        if not records:
            return
        appended = [
            Record(
                offset=offset,
                timestamp=timestamp_ms,
                key=key,
                value=value,
                headers=_headers(owners.get(key, "")),
            )
            for offset, (key, value) in enumerate(records, self._log.end_offset)
        ]
        data = b"".join(map(_encoded, _parts(appended)))
        self._log.append(data, crc_checked=True)
        # One sync for all: committed offsets are acknowledged when ``append`` returns.
        self._log.flush()
        self._size += len(data)
        # After the sync: memory never has an offset that a crash could take back.
        self._apply(appended)
        assert self._log.flushed_offset == appended[-1].offset + 1, "what is applied is on disk"
        # ``0 <=``: also after the wall clock was set back.
        if not 0 <= timestamp_ms - self._end_written_ms < _END_INTERVAL_MS:
            self._end_written_ms = timestamp_ms
            self._synced_end.write(self._log.end_offset)

    @property
    def needs_compaction(self) -> bool:
        """Whether most of the log is records that newer ones replaced."""
        # Four times: a rewrite then costs a fraction of the appends that made it necessary.
        return self._size > max(self._compact_bytes_min, 4 * self._live_bytes)

    def compact(self) -> None:
        """Replace the log by its live records; a crash leaves every live record in it.

        Raises DiskFailed, LogFailed. The log stays in use unless it could not be rolled.
        """
        # The active segment is never compacted (``LogCleanerManager``): its name keeps the offset
        # at which the log goes on.
        self._log.roll()
        for bases, end_offset in _groups(self._log.bases):
            live = (self._record(key, k) for key, k in self._live.items() if k.offset < end_offset)
            within = (record for record in live if record.offset >= bases[0])
            self._log.replace_closed(bases[0], _contiguous(within, bases[0], end_offset))
            # The first segment has the live records of all now; until the others are gone,
            # recovery deletes them.
            self._log.delete_closed(bases[1:])
        with doing("look at", self._directory):
            self._size = sum(self._path(base).stat().st_size for base in self._log.bases)

    def close(self) -> None:
        """Release the lock and close the files. Everything appended is on disk already."""
        # Not after a failed write: what the file holds then is not known.
        if not self._log.guard.reason and self._end_written_ms >= 0:
            self._synced_end.write(self._log.end_offset)
        self._close_log()
        self._synced_end.close()
        self._lock.release()

    def _close_log(self) -> None:
        with contextlib.suppress(LogError):
            self._log.close()

    def _recover(self, disk: Disk) -> UnifiedLog:
        with doing("read", self._directory):
            for pattern in _LEFTOVERS:
                for path in self._directory.glob(pattern):
                    disk.remove(path)
        offset_store_format.migrate(self._directory, disk, self._synced_end)
        recovery = SalvageRecovery(self._directory, disk, self.problems, _CONSEQUENCE)
        recovery.repair_all_closed()
        loaded = recovery.recover(self._synced_end.offset)
        return UnifiedLog(
            self._directory,
            disk,
            LogSettings(),
            loaded,
            rolls=rolls_when_told,
            problems=self.problems,
        )

    def _load(self) -> None:
        with doing("read", self._directory):
            for base in self._log.bases:
                # Read as a whole: compaction keeps the log within a few times the live records.
                path = self._path(base)
                data = read_regular(path)
                self._size += len(data)
                for header in iter_batches(data):
                    try:
                        self._apply(decode_batch(data, header.position).records)
                    except DecodeError as error:
                        self.problems.append(
                            f"{path}: the batch at byte {header.position} is whole, but its "
                            f"records cannot be read and are passed over: {error.reason}"
                        )

    def _record(self, key: bytes, live: _LiveRecord) -> Record:
        return Record(
            offset=live.offset,
            timestamp=live.timestamp,
            key=key,
            value=live.value,
            headers=_headers(live.owner),
        )

    def _path(self, base: int) -> Path:
        return self._directory / segment_name(base)

    def _apply(self, records: Iterable[Record]) -> None:
        for record in records:
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


def _groups(bases: Sequence[int]) -> Iterator[tuple[list[int], int]]:
    """Yield the closed segments in groups whose offsets fit into one segment, and the end offset of
    each group (``LogCleaner.groupSegmentsBySize``).
    """
    group: list[int] = []
    for base, following in itertools.pairwise(bases):
        if group and following - group[0] > _SPAN_MAX:
            yield group, base
            group = []
        group.append(base)
    if group:
        yield group, bases[-1]


def _contiguous(records: Iterable[Record], start: int, end: int) -> Iterator[bytes]:
    """Encode the records in batches that lead from offset ``start`` to ``end`` without a gap, so
    that a batch that is missing is found.
    """
    for part in _parts(records):
        yield gap(start, part[0].offset)
        yield _encoded(part)
        start = part[-1].offset + 1
    yield gap(start, end)


def _encoded(part: Sequence[Record]) -> bytes:
    return encode_batch(part, partition_leader_epoch=EPOCH)


def _parts(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Divide the records into batches that a reader can hold in memory."""
    part: list[Record] = []
    size = 0
    for record in records:
        # Compaction keeps the offsets of records, so that those of two neighbours may lie far
        # apart.
        if part and (size >= _BATCH_BYTES_MAX or record.offset - part[0].offset > _SPAN_MAX):
            yield part
            part, size = [], 0
        part.append(record)
        size += _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    if part:
        yield part


def _headers(owner: str) -> tuple[Header, ...]:
    return ((OWNER_HEADER, owner.encode("utf-8", "replace")),) if owner else ()
