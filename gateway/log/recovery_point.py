"""``recovery-point``: up to where this node's log was synced, and what it knew to be committed. The format is our own.

A voter's records count as soon as they are synced, committed or not: a batch that is bad before that point is damage, and
only one behind it may be the torn end that a crash leaves. What was synced is noted here after every sync, without a sync
of its own: the note survives the process, and a stop of the machine costs at most the last seconds of notes. Each is true
by itself, so that it does not matter which of them a crash leaves. Before the log is cut the point is lowered, with a sync.

The file has three slots, each whole or nothing by its CRC-32C: one for points that are settled, two for notes, which are
written in turns. Settling writes all of them, the one that tells least first, each when the one before is on disk: a slot
stands in for whichever a crash breaks. That the file is there says that a voter has run on the directory.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

import crc32c

from gateway.log.disk import Disk, DiskFile, doing

FILE_NAME: Final = "recovery-point"
#: Apart from each other, as no disk breaks two such blocks with one write.
_SLOT_BYTES: Final = 4096
_SLOTS: Final = 3
#: Which of them are written without waiting for the disk.
_NOTES: Final = (1, 2)
_SLOT: Final = struct.Struct(">8sqq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"kwire-rp"


class RecoveryPoint(NamedTuple):
    """Offsets, exclusive: everything before ``synced`` is on disk, everything before ``high_watermark`` is committed."""

    synced: int = 0
    high_watermark: int = 0


class RecoveryPointFile:
    """The file in ``data_dir``, made by the first ``note``. ``point`` is what was noted last."""

    def __init__(self, data_dir: Path, disk: Disk) -> None:
        """Read it; nothing is changed. Raises DiskFailed."""
        self._path = data_dir / FILE_NAME
        self._disk = disk
        self._file: DiskFile | None = None
        with doing("read", self._path):
            self.exists = self._path.exists()
            data = _head(self._path) if self.exists else b""
        self.point = best_of(data)
        self._slots = slots_of(data)
        self._is_synced = False

    def note(self, point: RecoveryPoint) -> None:
        """Write it down, without waiting for the disk; ``point`` must not lie behind the last one. Raises DiskFailed."""
        self._write(min(_NOTES, key=self._slots.__getitem__), point)

    def settle(self, point: RecoveryPoint) -> None:
        """Write it down for good, also where it lies behind the last one: nothing else is found after this returns.

        Raises DiskFailed.
        """
        self._sync()
        for slot in sorted(range(_SLOTS), key=self._slots.__getitem__):
            self._write(slot, point)
            self._sync()

    def close(self) -> None:
        """Let go of the file; a second time is no harm."""
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
        """Nothing that was written is on its way any more; a file that was only read may have been left so by a crash."""
        if self._is_synced or not (self._file or self.exists):
            return
        self._file = self._file or self._open()
        self._disk.sync(self._file)
        self._is_synced = True

    def _open(self) -> DiskFile:
        """The file, whose name is on disk."""
        file = self._disk.open(self._path)
        if not self.exists:
            try:
                self._disk.sync_directory(self._path.parent)
            except BaseException:
                file.close()
                raise
            self.exists = True
        return file


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_SLOTS * _SLOT_BYTES)


def format_slot(point: RecoveryPoint) -> bytes:
    """A slot's bytes."""
    data = _SLOT.pack(_MAGIC, *point)
    return data + _CRC.pack(crc32c.crc32c(data))


def best_of(data: bytes) -> RecoveryPoint:
    """The furthest that a whole slot in the file's bytes tells, in each of the two; zeros where none is whole."""
    return RecoveryPoint(*(max(offsets) for offsets in zip(*slots_of(data), strict=True)))


def slots_of(data: bytes) -> list[RecoveryPoint]:
    """What each slot in the file's bytes tells: zeros where it is not whole."""
    return [_parse_slot(data[n * _SLOT_BYTES : (n + 1) * _SLOT_BYTES]) for n in range(_SLOTS)]


def _parse_slot(data: bytes) -> RecoveryPoint:
    if len(data) < _SLOT.size + _CRC.size:
        return RecoveryPoint()
    magic, synced, high_watermark = _SLOT.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _SLOT.size)
    whole = magic == _MAGIC and 0 <= high_watermark <= synced and crc == crc32c.crc32c(data[: _SLOT.size])
    return RecoveryPoint(synced, high_watermark) if whole else RecoveryPoint()
