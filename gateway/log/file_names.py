"""The names of the files in a ``__cluster_metadata-0`` directory: which are segments and snapshots, and nothing else.

Everything that is not exactly one of the two is none of a reader's business: indexes, and what Kafka leaves behind or is
still writing (``.deleted``, ``.part``, ``.tmp``, ``.cleaned``, ``.swap``). Knows nothing of what stands in the files.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.snapshot_id import SnapshotId

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log", re.ASCII)
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint", re.ASCII)


#: The snapshot written when a node is formatted (KIP-853). It holds no metadata, and Kafka never serves it.
BOOTSTRAP_SNAPSHOT: Final = SnapshotId(0, 0)


def segment_name(base_offset: int) -> str:
    """The name of the segment whose first offset is ``base_offset`` (``LogFileUtils.logFile``)."""
    return f"{base_offset:020d}.log"


def parse_segment_name(name: str) -> int | None:
    """The base offset in a segment's name, None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """The id in a complete snapshot's name (``Snapshots.parse``), None for any other name."""
    match = _SNAPSHOT.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None
