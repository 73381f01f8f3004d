"""Opens the log of a partition that holds data, after a clean stop or a crash (``LogLoader``).

Every batch is read once, and its CRC compared. A last segment with a bad end is cut there, as in
Kafka: acknowledged records of a process that was killed are in the page cache, so only a crash of
the machine loses some. Damage before that is refused and nothing is changed: Kafka deletes what is
behind it. Blocking.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gateway.log.files.disk import TEMPORARY, Disk, doing
from gateway.log.files.errors import LogDamaged
from gateway.log.partition.loaded_log import LoadedLog, restart
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.batch_check import Checked
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment, SegmentScan, scan_segment
from kwire.metadata_log.file_names import parse_segment_name, segment_name
from kwire.records.header import BatchHeader, read_header

_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)
_ADVICE: Final = "restore the directory from a copy, or delete the topic"


def load_log(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    problems: list[str],
    on_batch: Callable[[BatchHeader, bytes], None],
    log_start: int = 0,
) -> LoadedLog:
    """Open the log in ``directory``, which must exist. ``on_batch`` gets the header of every batch,
    in order, and the bytes that it is in. ``problems`` gets a sentence for each repair. Records
    below ``log_start`` were deleted by a client. Raises LogDamaged, DiskFailed.
    """

    def note(checked: Checked) -> None:
        for header in iter_headers(checked):
            on_batch(header, checked.data)

    with doing("read", directory):
        names = {entry.name for entry in directory.iterdir()}
        bases = sorted(base for base in map(parse_segment_name, names) if base is not None)
        scans = [
            scan_segment(directory, base, settings.index_interval_bytes, 0, note, gaps=True)
            for base in bases
        ]
        _check_closed(directory, scans)
        _remove_leftovers(directory, disk, names)
        active = _active(directory, disk, settings, scans, problems)
    try:
        epochs: list[tuple[int, int]] = []
        for scan in scans:
            epochs += [one for one in scan.epochs if not epochs or one[0] > epochs[-1][0]]
        cache, closed = EpochCache(epochs), bases[:-1]
        if log_start > active.end_offset:
            # They were deleted, and those behind them were lost (``LogLoader``): offsets that a
            # client saw are not given out again.
            active.close()
            doomed = [*closed, active.base_offset]
            active, closed = restart(directory, disk, settings, doomed, log_start, cache), []
        start = max(log_start, closed[0] if closed else active.base_offset)
        cache.truncate_from_start(start)
        cache.save(disk, directory)
    except BaseException:
        active.close()
        raise
    return LoadedLog(closed, active, cache, start)


def iter_headers(checked: Checked) -> Iterator[BatchHeader]:
    """Yield the headers of batches that were read from a file."""
    if checked.batches:
        start = checked.batches[0].position
        for batch in checked.batches:
            yield read_header(checked.data, batch.position - start)


def _check_closed(directory: Path, scans: list[SegmentScan]) -> None:
    """Compare the segments with one another. Raises LogDamaged."""
    for scan, following in itertools.pairwise(scans):
        base = following.base_offset
        if scan.fault is not None or scan.file_size > scan.size or scan.tail.next_offset > base:
            reason = (
                scan.fault.reason
                if scan.fault
                else (
                    f"it ends at offset {scan.tail.next_offset}, and the next segment begins at "
                    f"{base}"
                )
            )
            path = directory / segment_name(scan.base_offset)
            raise LogDamaged(str(path), scan.size, reason, _ADVICE)
    for before, after in itertools.pairwise(one for one in scans if one.epochs):
        if after.epochs[0][0] < before.epochs[-1][0]:
            reason = f"epoch {after.epochs[0][0]} follows epoch {before.epochs[-1][0]}"
            path = directory / segment_name(after.base_offset)
            raise LogDamaged(str(path), 0, reason, _ADVICE)


def _active(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    scans: list[SegmentScan],
    problems: list[str],
) -> Segment:
    """Open the last segment, without a bad end; create the first one in an empty directory."""
    if not scans:
        return Segment.create(disk, directory, 0, settings.index_interval_bytes)
    scan = scans[-1]
    if scan.file_size > scan.size:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        problems.append(
            f"{directory / segment_name(scan.base_offset)}: {scan.file_size - scan.size} "
            f"bytes from byte {scan.size} on cut off: {why}"
        )
    return Segment(disk, directory, scan)


def _remove_leftovers(directory: Path, disk: Disk, names: set[str]) -> None:
    for name in sorted(names):
        index = _INDEX.fullmatch(name)
        if name.endswith(TEMPORARY) or (index and f"{index[1]}.log" not in names):
            disk.remove(directory / name)
