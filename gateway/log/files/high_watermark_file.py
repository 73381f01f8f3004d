"""Stores the high watermark in ``high-watermark``, with one small sync in place. Kafka has no such
file.

Kafka's raft stores no high watermark: a restarted replica learns it from the leader. Here it must
outlive a power failure, because clients have read up to it, and every commit waits for it.
Replacing a whole file takes three syncs of file and directory, about ten times as long.

The file has two slots in blocks of 4096 bytes, both whole from the beginning. A write overwrites
the older slot, so that the newer one is whole whatever a crash leaves of the write. A slot is
``kwire-hw``, the offset, and the CRC-32C of both.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import crc32c

from gateway.log.files.disk import Disk, DiskFile, doing
from gateway.log.files.errors import LogDamaged
from kwire.metadata_log.open_file import read_regular

FILE_NAME: Final = "high-watermark"
#: A torn write damages the sectors of one block at most (512 or 4096 bytes), so two slots in blocks
#: of their own are never damaged together.
BLOCK_BYTES: Final = 4096
SIZE: Final = 2 * BLOCK_BYTES
_SLOT: Final = struct.Struct(">8sq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"kwire-hw"
_NONE: Final = -1


class HighWatermarkFile:
    """The file in ``data_dir``, created by the first ``write``."""

    def __init__(self, data_dir: Path, disk: Disk, problems: list[str]) -> None:
        """Read the file; change nothing. Raises LogDamaged if it has content but no whole slot;
        DiskFailed.
        """
        self._path = data_dir / FILE_NAME
        self._disk = disk
        self._file: DiskFile | None = None
        self._offsets = self._read(problems)

    @property
    def offset(self) -> int:
        """The largest offset written, 0 if none was."""
        return max(0, *self._offsets)

    def write(self, offset: int) -> None:
        """Store ``offset`` durably. Raises DiskFailed, after which the previous offset stands, and
        the write can be repeated.
        """
        if self._file is None:
            self._file = self._open()
        assert offset >= 0, "an offset is not negative"
        # ``<=``: of two equal slots either may be written.
        older = 0 if self._offsets[0] <= self._offsets[1] else 1
        self._disk.write(self._file, older * BLOCK_BYTES, format_slot(offset))
        # ``fdatasync`` of a file whose size does not change: one write of one block.
        self._disk.sync(self._file)
        # After the sync: a failed write leaves the old offset in force.
        self._offsets[older] = offset
        assert self.offset == max(self._offsets) >= 0

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, problems: list[str]) -> list[int]:
        with doing("read", self._path):
            data = read_regular(self._path, SIZE) if self._path.exists() else b""
        # Each by itself: one slot that is damaged does not spoil the other.
        offsets = slots_of(data)
        # A shorter file, or one of zeros, is a new one whose first write was interrupted.
        if max(offsets) == _NONE and any(data) and len(data) == SIZE:
            reason = "neither of its two slots is whole"
            # With syncs a crash leaves one slot whole, so this is damage of another kind.
            if self._disk.fsync:
                advice = (
                    "restore it, or remove it: until the quorum tells the high watermark, "
                    "clients may see less than before"
                )
                raise LogDamaged(str(self._path), -1, reason, advice)
            problems.append(
                f"{self._path}: {reason}, as after a crash of the machine without fsync: "
                "taken as none"
            )
        return offsets

    def _open(self) -> DiskFile:
        """Open the file and make both slots whole: from now on at least one of them is, at any
        instant.
        """
        file = self._disk.open(self._path)
        try:
            # A new file: its name and both slots are on disk before the first offset counts.
            if max(self._offsets) == _NONE:
                self._disk.write(file, 0, format_slot(0).ljust(BLOCK_BYTES, b"\0") * 2)
                self._disk.sync(file)
                self._disk.sync_directory(self._path.parent)
                self._offsets = [0, 0]
        except BaseException:
            file.close()
            raise
        return file


def format_slot(offset: int) -> bytes:
    """Return the bytes of a slot."""
    data = _SLOT.pack(_MAGIC, offset)
    return data + _CRC.pack(crc32c.crc32c(data))


def slots_of(data: bytes) -> list[int]:
    """Return the offset in each slot of the file's bytes; -1 for a slot that is not whole."""
    return [parse_slot(data[at : at + BLOCK_BYTES]) for at in (0, BLOCK_BYTES)]


def parse_slot(data: bytes) -> int:
    """Return the offset in a slot; -1 if it is not whole."""
    if len(data) < _SLOT.size + _CRC.size:
        return _NONE
    magic, offset = _SLOT.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _SLOT.size)
    whole = magic == _MAGIC and offset >= 0 and crc == crc32c.crc32c(data[: _SLOT.size])
    return int(offset) if whole else _NONE
