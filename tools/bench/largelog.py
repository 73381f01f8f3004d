"""Provides the log ``p-large`` for the benches: as Kafka left it, and as a longer one of its own
batches; and the small logs beside it.
"""

from __future__ import annotations

import os
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from kwire.records.header import iter_batches
from tools.archives import extract

_SHARED = Path(
    os.environ.get("KWIRE_SHARED")
    or Path(__file__).resolve().parent.parent.parent.parent / "shared"
)
_SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
#: The leader epoch's place in a batch; like the base offset it is not covered by the CRC.
_EPOCH_AT = 12


class NoLog(Exception):
    """The shared logs do not exist on this machine."""


@dataclass(frozen=True)
class Batch:
    """One data batch: its bytes, offsets and records."""

    data: bytes
    offsets: int
    records: int


def unpack(into: Path, name: str = "p-large") -> Path:
    """Return the directory of node 1 of a log, unpacked. Raises NoLog."""
    archive = _SHARED / "logs" / f"{name}.tar.xz"
    if not archive.exists():
        raise NoLog(f"{archive} is not there; KWIRE_SHARED may name another place")
    extract(archive, into, f"{name}/nodes/1")
    return into / f"{name}/nodes/1"


def data_batches(node: Path) -> list[Batch]:
    """Return its batches without control batches, which no producer may send."""
    data = (node / _SEGMENT).read_bytes()
    return [
        Batch(data[header.position : header.end], header.last_offset_delta + 1, header.record_count)
        for header in iter_batches(data)
        if not header.is_control
    ]


def repeated(node: Path, batches: list[Batch], times: int, into: Path) -> Path:
    """Return a node directory like ``node`` whose log repeats ``batches``, at growing offsets of
    one epoch.
    """
    shutil.copytree(
        node,
        into,
        ignore=shutil.ignore_patterns("*.index", "*.timeindex", "*.checkpoint", "*.snapshot"),
    )
    offset = 0
    with (into / _SEGMENT).open("wb") as segment:
        for _ in range(times):
            for batch in batches:
                moved = bytearray(batch.data)
                struct.pack_into(">q", moved, 0, offset)
                struct.pack_into(">i", moved, _EPOCH_AT, 1)
                segment.write(moved)
                offset += batch.offsets
    return into
