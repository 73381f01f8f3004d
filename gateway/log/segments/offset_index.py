"""Finds where in a segment to begin to look for an offset, with the ``.index`` file beside it.

The result is a hint: the file may be missing, outdated, or preallocated with zeros behind its
entries, as Kafka's is for an active segment. The caller compares it with the batch at that
position. Source: ``OffsetIndex.lookup``.
"""

from __future__ import annotations

from typing import Final

from gateway.log.segments.batch_check import batch_at
from gateway.log.segments.segment_index import OFFSET_ENTRY
from kwire.metadata_log.open_file import OpenFile

_SIZE: Final = OFFSET_ENTRY.size


def position_near(file: OpenFile, base_offset: int, offset: int) -> int:
    """Return the position of a batch in a segment that ends before ``offset``, from the index if it
    agrees with the log; else 0. Raises OSError.
    """
    if offset <= base_offset:
        return 0
    entry = find_entry(f"{file.path.removesuffix('.log')}.index", base_offset, offset)
    # A hint: the search from the beginning gives the same result, later.
    if entry is None:
        return 0
    last_offset, position = entry
    # The index may be of another file of this name: only the batch tells.
    batch = batch_at(file, position)
    return position if batch is not None and batch.last_offset == last_offset else 0


def find_entry(path: str, base_offset: int, offset: int) -> tuple[int, int] | None:
    """Return the last entry for a batch that ends before ``offset``: (the batch's last offset, its
    position).

    ``base_offset`` is the segment's. None if the file has no such entry, or cannot be read.
    """
    try:
        file = OpenFile(path)
        low, high, found = 0, file.status()[0] // _SIZE, None
        while low < high:
            middle = (low + high) // 2
            entry = file.read(middle * _SIZE, _SIZE)
            if len(entry) < _SIZE:
                return None  # it was cut a moment ago
            relative, position = OFFSET_ENTRY.unpack(entry)
            # Zeros behind the entries look like offset 0 at position 0.
            if position > 0 and base_offset + relative < offset:
                low, found = middle + 1, (base_offset + relative, position)
            else:  # no batch that has an entry stands at 0
                high = middle
        return found
    except OSError:
        return None
