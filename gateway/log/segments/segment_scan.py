"""Checks the batches of a segment, all or those behind its recovery point, and makes its index of
them. It changes no file.

Source: ``LogSegment.recover``, ``LogLoader.recoverLog``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.log.segments.batch_check import Batch, Checked, Readable, Tail, batch_at, check_file
from gateway.log.segments.segment_index import SegmentIndex
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile, read_regular

INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
#: For batches that were checked when they were appended: any offset may come first.
ANY: Final = Tail(-1, -1, gaps=True)


@dataclass(slots=True)
class SegmentScan:
    """The result of checking a whole segment. The scan only reads."""

    index: SegmentIndex
    tail: Tail  #: end offset and last epoch of what is good
    size: int = 0  #: bytes that are good
    file_size: int = 0
    epochs: list[tuple[int, int]] = field(
        default_factory=list
    )  #: (epoch, first offset) of each in it
    fault: DecodeError | None = (
        None  #: what is wrong at ``size``; None also for an unfinished batch there
    )

    @property
    def base_offset(self) -> int:
        """The offset in the segment's name."""
        return self.index.base_offset


def read_index(file: OpenFile, base_offset: int, interval_bytes: int) -> SegmentIndex | None:
    """Return the content of a segment's index files, None if they are of no use."""
    path = Path(file.path)
    try:
        offsets = read_regular(path.with_suffix(INDEX_SUFFIX))
        times = read_regular(path.with_suffix(TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    return SegmentIndex.of_files(base_offset, interval_bytes, offsets, times)


def scan_segment(
    directory: Path,
    base_offset: int,
    interval_bytes: int,
    epoch: int,
    on_checked: Callable[[Checked], None] | None = None,
    *,
    gaps: bool = False,
) -> SegmentScan:
    """Check the batches of a segment up to the first bad one; none may have an epoch below
    ``epoch``. ``on_checked`` is called with the good batches, chunk by chunk. ``gaps``: it may be
    compacted. Raises OSError.
    """
    # A descriptor for reading: the scan also serves directories that are refused and stay
    # unchanged.
    file = OpenFile(str(directory / segment_name(base_offset)))
    scan = SegmentScan(
        SegmentIndex(base_offset, interval_bytes),
        Tail(base_offset, epoch, gaps),
        file_size=file.status()[0],
    )
    _check_to_end(file, scan, on_checked)
    return scan


def scan_from(
    directory: Path,
    base_offset: int,
    interval_bytes: int,
    recovery_point: int,
    epochs: Sequence[tuple[int, int]],
    log_start: int,
    on_checked: Callable[[Checked], None] | None = None,
    *,
    gaps: bool = False,
) -> SegmentScan | None:
    """Check the batches of a segment from the last index entry below ``recovery_point`` on: what is
    before it was on disk, indexes and ``epochs`` (those of the log from ``log_start`` on) included.
    ``on_checked`` and ``gaps`` as in :func:`scan_segment`.

    None if these files contradict each other, or save nothing: then only the whole segment tells.
    Raises OSError. Source: ``LogLoader.recoverLog``.
    """
    file = OpenFile(str(directory / segment_name(base_offset)))
    index = read_index(file, base_offset, interval_bytes)
    if index is not None:
        index, _ = index.rewound(recovery_point)
    entry = index.last_entry if index is not None else None
    # A batch with an offset entry comes with a time entry for the largest timestamp up to it.
    if index is None or entry is None or not index.counts[1]:
        return None
    first, last = batch_at(file, 0), batch_at(file, entry[1])
    # An index of another file of this name, or a file of another one, as restored from a copy.
    if first is None or last is None or last.last_offset != entry[0]:
        return None
    if first.base_offset != base_offset and not (gaps and first.base_offset > base_offset):
        return None
    known = [one for one in epochs if one[1] <= last.base_offset]
    # An offset below the log start has no epoch in the file.
    for batch in (one for one in (first, last) if one.base_offset >= log_start):
        held = [epoch for epoch, offset in known if offset <= batch.base_offset]
        if held[-1:] != [batch.epoch]:
            return None
    index.first_timestamp = first.max_timestamp
    scan = SegmentScan(
        index,
        Tail(last.base_offset, last.epoch, gaps),
        size=last.position,
        file_size=file.status()[0],
        epochs=[(first.epoch, first.base_offset)],
    )
    scan.epochs += [one for one in known if one[1] > first.base_offset]
    _check_to_end(file, scan, on_checked)
    return scan if scan.size > last.position else None


def _check_to_end(
    file: OpenFile, scan: SegmentScan, on_checked: Callable[[Checked], None] | None = None
) -> None:
    """Check the batches behind those that ``scan`` has already, up to the first bad one."""
    for checked in check_file(file, scan.size, scan.file_size, scan.tail):
        if on_checked is not None:
            on_checked(checked)
        scan.index.add(checked.batches)
        scan.size, scan.tail, scan.fault = checked.end or scan.size, checked.tail, checked.fault
        note_epochs(scan.epochs, checked.batches)


def has_indexes(directory: Path, scan: SegmentScan) -> bool:
    """Return whether the index files of a segment are what the scan says. Raises OSError."""
    path = directory / segment_name(scan.base_offset)
    try:
        offsets = read_regular(path.with_suffix(INDEX_SUFFIX))
        times = read_regular(path.with_suffix(TIME_INDEX_SUFFIX))
    except FileNotFoundError:
        return False
    return (offsets, times) == (scan.index.offset_bytes(), scan.index.time_bytes())


def note_epochs(epochs: list[tuple[int, int]], batches: Sequence[Batch]) -> None:
    """Add to ``epochs`` each epoch that begins with one of ``batches``."""
    # Epochs never decrease, so the last batch tells for all of them.
    if not batches or (epochs and epochs[-1][0] == batches[-1].epoch):
        return
    for batch in batches:
        if not epochs or batch.epoch > epochs[-1][0]:
            epochs.append((batch.epoch, batch.base_offset))


def batch_start(directory: Path, scan: SegmentScan, offset: int) -> int:
    """Return the base offset of the batch that holds ``offset``, which must lie in the scanned
    segment. Raises OSError.
    """
    found = find_batch(
        OpenFile(str(directory / segment_name(scan.base_offset))), scan.index, offset, scan.size
    )
    return found.base_offset if found else scan.tail.next_offset


def find_batch(file: Readable, index: SegmentIndex, offset: int, size: int) -> Batch | None:
    """Return the first batch that ends at ``offset`` or later."""
    for checked in check_file(file, index.position_before(offset), size, ANY):
        for batch in checked.batches:
            if batch.last_offset >= offset:
                return batch
    return None
