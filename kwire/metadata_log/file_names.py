"""Parses and formats the names of segments and snapshots in a ``__cluster_metadata-0`` directory.

Every other name is ignored: indexes, and what Kafka leaves behind or is still writing
(``.deleted``, ``.part``, ``.tmp``, ``.cleaned``, ``.swap``). It does not open files. Source:
``LogFileUtils``, ``Snapshots``.
"""

from __future__ import annotations

import re
from typing import Final

from kwire.metadata_log.snapshot_id import SnapshotId

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log", re.ASCII)
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)


#: The snapshot written when a node is formatted (KIP-853). It holds no metadata, and Kafka never
#: serves it.
BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)


def segment_name(base_offset: int) -> str:
    """Return the name of the segment with this base offset (``LogFileUtils.logFile``)."""
    return f"{base_offset:020d}.log"


def parse_segment_name(name: str) -> int | None:
    """Return the base offset in a segment's name, None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the id in the name of a complete snapshot (``Snapshots.parse``), None for any other
    name.
    """
    match = _SNAPSHOT.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None
