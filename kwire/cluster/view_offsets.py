"""Numbers the records of the view topics, so that a record has the same offset at every server of a
cluster.

Each offset of the metadata log stands for ``2**24`` offsets of every view, in two halves. A record
at metadata offset O has its changes at ``O * 2**24`` and the numbers behind it; behind those of the
last record of a batch are the updates of topics that the batch made. A snapshot that
ends at offset E has the state that it holds in the second half of the offsets of E - 1: below all
changes that follow the snapshot, and where no change ever is. The last of these offsets is that of
the record that says that the snapshot is complete, in every view. A view has the numbers of its own
changes only, so its offsets grow with gaps, as those of a compacted topic.

Docs: docs/decisions/0016-offsets-of-the-view-topics.md.
"""

from __future__ import annotations

from typing import Final

#: Bits of an offset that number the changes of one record. 39 bits are left for the offset in the
#: metadata log: 17 years of 1000 records a second.
INDEX_BITS: Final = 24
#: Changes that one record, or one metadata transaction, can make; and records of a snapshot.
CHANGES_MAX: Final = 1 << (INDEX_BITS - 1)
#: The end of the metadata log that still has offsets in the views.
LOG_OFFSET_MAX: Final = 1 << (63 - INDEX_BITS)


def at(log_offset: int) -> int:
    """Return the first offset of a view for the record at ``log_offset``; also the end of a view
    whose log ends there.
    """
    return log_offset << INDEX_BITS


def log_offset(view_offset: int) -> int:
    """Return the offset in the metadata log of the record that made the one at ``view_offset``."""
    return view_offset >> INDEX_BITS


def of_snapshot(end_offset: int) -> int:
    """Return the first offset of a view for the state of a snapshot that ends at ``end_offset``.

    0 for a snapshot that ends at offset 0, which Kafka writes when it formats a directory.
    """
    return at(end_offset - 1) + CHANGES_MAX if end_offset > 0 else 0


def of_complete(end_offset: int) -> int:
    """Return the offset of the record that says that the snapshot which ends at ``end_offset`` is
    complete. ``end_offset`` is above 0.
    """
    return of_snapshot(end_offset) + CHANGES_MAX - 1


def is_inside_snapshot(view_offset: int, snapshot_end: int) -> bool:
    """Whether a reader at ``view_offset`` has read a part of a snapshot that does not end at
    ``snapshot_end``. One that has read all of it is at the first offset behind it.
    """
    number = view_offset - at(log_offset(view_offset))
    return number > CHANGES_MAX and log_offset(view_offset) + 1 != snapshot_end
