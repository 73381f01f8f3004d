"""Stores in ``recovery-point`` how far a voter's log was synced, and its high watermark. Kafka has
no such file.

A voter's records count as soon as they are synced, committed or not: its acknowledgement may have
completed a majority. A bad batch before the synced end is therefore damage, and only one behind it
may be a torn write. The synced end is noted after every sync, without a sync of its own: the note
survives the process, and a power failure loses the notes of the last seconds at most. Each note is
true by itself, so any of them may be the one that survives. Before the log is truncated the point
is lowered, with a sync.

The file has three slots, each valid only with its CRC-32C: one for points that were settled, two
that notes use in turns. Settling writes all three, the lowest first, each after the previous one is
on disk: another slot is whole whichever one a crash tears. The existence of the file shows that a
voter has run on the directory.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

import crc32c

from gateway.log.files.disk import Disk, DiskFile, doing
from kwire.metadata_log.open_file import read_regular

FILE_NAME: Final = "recovery-point"
#: One block for each slot, because a torn write damages one block at most.
_SLOT_BYTES: Final = 4096
_SLOTS: Final = 3
#: The slots that notes use.
_NOTES: Final = (1, 2)
_SLOT: Final = struct.Struct(">8sqq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"kwire-rp"


class RecoveryPoint(NamedTuple):
    """Offsets, exclusive: everything before ``synced`` is on disk, everything before
    ``high_watermark`` is committed.
    """

    synced: int = 0
    high_watermark: int = 0


class RecoveryPointFile:
    """The file in ``data_dir``, created by the first ``note``. ``point`` is the last point
    written.
    """

    def __init__(self, data_dir: Path, disk: Disk) -> None:
        """Read the file; change nothing. Raises DiskFailed."""
        self._path = data_dir / FILE_NAME
        self._disk = disk
        self._file: DiskFile | None = None
        with doing("read", self._path):
            self.exists = self._path.exists()
            data = _head(self._path) if self.exists else b""
        # The largest, because every note was true when it was written.
        self.point = best_of(data)
        self._slots = slots_of(data)
        self._is_synced = False

    def note(self, point: RecoveryPoint) -> None:
        """Write the point without a sync; it must not lie behind the last one. Raises
        DiskFailed.
        """
        # One write and no sync: a sync here would double the time of each commit.
        assert 0 <= point.high_watermark <= point.synced, "committed records are synced"
        # The older of the two slots: a torn write leaves the newer one.
        self._write(min(_NOTES, key=self._slots.__getitem__), point)

    def settle(self, point: RecoveryPoint) -> None:
        """Write the point durably, also behind the last one: no other point is found after this
        returns.

        Raises DiskFailed.
        """
        # The notes before it may be unsynced. One of them could reach the disk after the lower
        # point.
        self._sync()
        # Without these syncs ``tests/gateway/log/metadata/test_raft_store_crashes.py`` finds a
        # crash that makes a start impossible.
        for slot in sorted(range(_SLOTS), key=self._slots.__getitem__):
            self._write(slot, point)
            self._sync()

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, slot: int, point: RecoveryPoint) -> None:
        if self._file is None:
            self._file = self._open()
        self._disk.write(self._file, slot * _SLOT_BYTES, format_slot(point))
        self._is_synced = False
        self._slots[slot] = self.point = point

    def _sync(self) -> None:
        """Wait until every write is on disk. A file that was only read may have unsynced writes of
        a crashed process.
        """
        # A directory without the file has nothing to wait for.
        if self._is_synced or not (self._file or self.exists):
            return
        self._file = self._file or self._open()
        self._disk.sync(self._file)
        self._is_synced = True

    def _open(self) -> DiskFile:
        """Open the file; its name is on disk when this returns."""
        file = self._disk.open(self._path)
        if not self.exists:
            try:
                # Its existence is what shows that a voter has run here (``VoterDirectoryCheck``).
                self._disk.sync_directory(self._path.parent)
            except BaseException:
                file.close()
                raise
            self.exists = True
        return file


def _head(path: Path) -> bytes:
    return read_regular(path, _SLOTS * _SLOT_BYTES)


def format_slot(point: RecoveryPoint) -> bytes:
    """Return the bytes of a slot."""
    data = _SLOT.pack(_MAGIC, *point)
    return data + _CRC.pack(crc32c.crc32c(data))


def best_of(data: bytes) -> RecoveryPoint:
    """Return the largest of each offset in the whole slots; zeros without a whole slot."""
    return RecoveryPoint(*(max(offsets) for offsets in zip(*slots_of(data), strict=True)))


def slots_of(data: bytes) -> list[RecoveryPoint]:
    """Return the point in each slot of the file's bytes; zeros for a slot that is not whole."""
    return [_parse_slot(data[n * _SLOT_BYTES : (n + 1) * _SLOT_BYTES]) for n in range(_SLOTS)]


def _parse_slot(data: bytes) -> RecoveryPoint:
    if len(data) < _SLOT.size + _CRC.size:
        return RecoveryPoint()
    magic, synced, high_watermark = _SLOT.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _SLOT.size)
    whole = (
        magic == _MAGIC
        and 0 <= high_watermark <= synced
        and crc == crc32c.crc32c(data[: _SLOT.size])
    )
    return RecoveryPoint(synced, high_watermark) if whole else RecoveryPoint()
