"""``high-watermark``: what is committed, so written that one small sync in place makes it durable. The format is our own.

Kafka's raft keeps no high watermark on disk. Here it must outlive a loss of power, as clients have seen it, and every
commit waits for that: replacing a file as a whole takes three syncs of file and directory, some ten times as long.

The file has two slots, a block of 4096 bytes each, whole from the beginning. The older one is overwritten, so that
whatever a crash makes of it, the newer one stands. A slot is ``kwire-hw``, the offset, and the CRC-32C of both.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import crc32c

from gateway.log.disk import Disk, DiskFile, doing
from gateway.log.errors import LogDamaged

FILE_NAME: Final = "high-watermark"
#: No disk writes less than a sector or more than a block of this size in one piece: two slots never break together.
BLOCK_BYTES: Final = 4096
_SIZE: Final = 2 * BLOCK_BYTES
_SLOT: Final = struct.Struct(">8sq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"kwire-hw"
_NONE: Final = -1


class HighWatermarkFile:
    """The file in ``data_dir``, made by the first ``write``. ``offset``: the largest one written, 0 if none ever was."""

    def __init__(self, data_dir: Path, disk: Disk, problems: list[str]) -> None:
        """Read it; nothing is changed. Raises LogDamaged where it holds something but no whole slot, DiskFailed."""
        self._path = data_dir / FILE_NAME
        self._disk = disk
        self._file: DiskFile | None = None
        self._offsets = self._read(problems)

    @property
    def offset(self) -> int:
        """It never goes back."""
        return max(0, *self._offsets)

    def write(self, offset: int) -> None:
        """Durable when this returns. Raises DiskFailed, after which the last one stands, and it can be tried again."""
        if self._file is None:
            self._file = self._open()
        older = 0 if self._offsets[0] <= self._offsets[1] else 1
        self._disk.write(self._file, older * BLOCK_BYTES, format_slot(offset))
        self._disk.sync(self._file)
        self._offsets[older] = offset

    def close(self) -> None:
        """Let go of the file; a second time is no harm."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, problems: list[str]) -> list[int]:
        with doing("read", self._path):
            data = self._path.read_bytes()[:_SIZE] if self._path.exists() else b""
        offsets = [parse_slot(data[at : at + BLOCK_BYTES]) for at in (0, BLOCK_BYTES)]
        if max(offsets) == _NONE and any(data) and len(data) == _SIZE:  # not one whose beginning was interrupted
            reason = "neither of its two slots is whole"
            if self._disk.fsync:
                advice = "restore it, or remove it: until the quorum tells the high watermark, clients may see less than before"
                raise LogDamaged(str(self._path), -1, reason, advice)
            problems.append(f"{self._path}: {reason}, as after a crash of the machine without fsync: taken as none")
        return offsets

    def _open(self) -> DiskFile:
        """The file, whole: from now on one of its slots is, at any instant."""
        file = self._disk.open(self._path)
        try:
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
    """A slot's bytes."""
    data = _SLOT.pack(_MAGIC, offset)
    return data + _CRC.pack(crc32c.crc32c(data))


def parse_slot(data: bytes) -> int:
    """The offset in a slot; -1 where it is not whole."""
    if len(data) < _SLOT.size + _CRC.size:
        return _NONE
    magic, offset = _SLOT.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _SLOT.size)
    whole = magic == _MAGIC and offset >= 0 and crc == crc32c.crc32c(data[: _SLOT.size])
    return int(offset) if whole else _NONE
