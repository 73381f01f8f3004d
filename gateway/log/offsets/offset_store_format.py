"""Rewrites the files of committed offsets of version 0.2.0 in the form of a partition log.

That version had one segment without indexes, with gaps between batches after a compaction, and the
synced end as a decimal number. Batches are copied as they are; what it cannot read it leaves to
recovery.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.log.files.disk import Disk, doing
from gateway.log.files.synced_end import SyncedEnd
from gateway.log.partition.salvage import EPOCH, gap
from gateway.log.segments.batch_check import Checked, Tail, check_batches
from gateway.log.segments.segment_scan import INDEX_SUFFIX
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import read_regular

#: Name of the file with the synced end, as text.
SYNCED_END: Final = "synced-end-offset"
_SYNCED_END_BYTES_MAX: Final = 32
#: More offsets than any store has had between two batches that it kept.
_GAP_MAX: Final = 1 << 40
_OFFSET: Final = struct.Struct(">q")


def migrate(directory: Path, disk: Disk, synced_end: SyncedEnd) -> None:
    """Rewrite the files of that version, if any; calling it again is no harm. Raises DiskFailed."""
    path = directory / segment_name(0)
    with doing("read", directory):
        if path.exists() and not path.with_suffix(INDEX_SUFFIX).exists():
            data = read_regular(path)
            contiguous = b"".join(_without_gaps(data))
            if contiguous != data:
                disk.replace(path, contiguous)
    synced_end.write(_read_end(directory / SYNCED_END))
    disk.remove(directory / SYNCED_END)


def _without_gaps(data: bytes) -> Iterator[bytes]:
    """Yield the batches, with empty ones for the offsets that compaction left out."""
    view = memoryview(data)
    position = next_offset = 0
    while position < len(data):
        # Any offset may come first; the next gap ends the run.
        checked = check_batches(view[position:], Tail(-1, EPOCH), position)
        if not checked.batches or not _may_follow(checked, next_offset, data):
            break
        yield gap(next_offset, checked.batches[0].base_offset)
        yield data[position : checked.end]
        position, next_offset = checked.end, checked.tail.next_offset
    yield data[position:]


def _may_follow(run: Checked, next_offset: int, data: bytes) -> bool:
    """Return whether compaction can have left a gap before a run; otherwise its first base offset
    is damaged, which the CRC does not cover.
    """
    first, behind = run.batches[0].base_offset, data[run.end : run.end + _OFFSET.size]
    # A damaged offset leads to no further batch.
    if len(run.batches) == 1 and len(behind) == _OFFSET.size:
        (following,) = _OFFSET.unpack(behind)
        if following < run.tail.next_offset:
            return False
    return next_offset <= first <= next_offset + _GAP_MAX


def _read_end(path: Path) -> int:
    try:
        # A longer file is not one of this kind; it fails the test below.
        text = read_regular(path, _SYNCED_END_BYTES_MAX)
    # Only a warning would be lost.
    except OSError:
        return 0
    return int(text) if text.endswith(b"\n") and text[:-1].isdigit() else 0
