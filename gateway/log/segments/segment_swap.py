"""Puts a compacted segment in the place of those that it was made of, and finishes or undoes that
after a crash.

The files are those of Kafka, in its order, so that either server finishes what the other began: new
files are named ``.cleaned`` until all of them are on disk, then ``.swap`` until the old segments
are deleted. Source: ``LocalLog.replaceSegments``, ``LogLoader.load``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gateway.log.files.disk import DELETED, Disk
from gateway.log.segments.batch_check import Tail, check_file
from gateway.log.segments.segment_scan import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kwire.metadata_log.file_names import segment_name
from kwire.metadata_log.open_file import OpenFile

CLEANED: Final = ".cleaned"
_SWAP: Final = ".swap"
#: The suffixes of the indexes of a segment.
INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ".txnindex")
_KINDS: Final = (".log", *INDEXES)
_UNFINISHED: Final = re.compile(
    r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex)(\.cleaned|\.swap)", re.ASCII
)
_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)", re.ASCII)


def suffixed(directory: Path, base: int, kind: str, suffix: str) -> Path:
    """Return the path of a file of a segment while it is not one of the log."""
    return (directory / segment_name(base)).with_suffix(kind + suffix)


def swap_segments(directory: Path, disk: Disk, bases: Sequence[int], delay_ms: int = 0) -> None:
    """Replace the segments ``bases``, in order, by the one whose files end in ``.cleaned``, which
    are on disk. The old files stay under other names for ``delay_ms``. Raises DiskFailed.
    """
    first = bases[0]
    # One that a failed attempt has left would make a start undo this replacement.
    for entry in directory.iterdir():
        if entry.name.endswith(CLEANED) and not entry.name.startswith(segment_name(first)[:20]):
            disk.remove(entry)
    kinds = [kind for kind in _KINDS if suffixed(directory, first, kind, CLEANED).exists()]
    for kind in kinds:
        disk.rename(
            suffixed(directory, first, kind, CLEANED), suffixed(directory, first, kind, _SWAP)
        )
    # From here on a start goes forward.
    disk.sync_directory(directory)
    for base in bases:
        path = directory / segment_name(base)
        for kind in _KINDS:
            disk.discard(path.with_suffix(kind), delay_ms)
        if base != first:
            disk.discard(path.with_suffix(".snapshot"), delay_ms)
    # Before the new segment has its name: the old ones would have its offsets a second time.
    disk.sync_directory(directory)
    _finish(directory, disk, first, kinds)


def remove_cleaned(directory: Path, disk: Disk, base: int) -> None:
    """Remove the files of a new segment that is not needed. Raises DiskFailed."""
    for kind in _KINDS:
        disk.remove(suffixed(directory, base, kind, CLEANED))


def finish_swaps(directory: Path, disk: Disk) -> None:
    """Finish the replacements that a crash has interrupted behind their last rename, and remove
    what is left of others, and files that wait for their deletion. Raises DiskFailed, OSError.
    """
    names = [entry.name for entry in directory.iterdir()]
    for name in names:
        if name.endswith(DELETED):
            disk.remove(directory / name)
    found = [match for name in names if (match := _UNFINISHED.fullmatch(name))]
    unfinished = {int(match[1]) for match in found if match[3] == CLEANED}
    # Files of one segment are renamed in any order: all of them, or none.
    valid = {
        int(match[1])
        for match in found
        if match[3] == _SWAP and int(match[1]) < min(unfinished, default=1 << 63)
    }
    for match in found:
        if match[3] != _SWAP or int(match[1]) not in valid:
            disk.remove(directory / match[0])
    for base in sorted(valid):
        kinds = [kind for kind in _KINDS if suffixed(directory, base, kind, _SWAP).exists()]
        if ".log" in kinds:
            end = _end_offset(suffixed(directory, base, ".log", _SWAP), base)
            _remove_between(directory, disk, names, base, end)
            disk.sync_directory(directory)
        _finish(directory, disk, base, kinds)


def _finish(directory: Path, disk: Disk, base: int, kinds: Iterable[str]) -> None:
    for kind in kinds:
        disk.rename(
            suffixed(directory, base, kind, _SWAP),
            (directory / segment_name(base)).with_suffix(kind),
        )
    disk.sync_directory(directory)


def _remove_between(directory: Path, disk: Disk, names: Iterable[str], base: int, end: int) -> None:
    """Remove the files of the segments whose records are in a new one from ``base`` to ``end``."""
    for name in names:
        match = _FILE.fullmatch(name)
        if match is None or not base <= int(match[1]) < end:
            continue
        # The batches of the first segment go when the new ones take their name.
        if int(match[1]) != base or match[2] not in {"log", "snapshot"}:
            disk.remove(directory / name)


def _end_offset(path: Path, base: int) -> int:
    """Return the offset behind the last batch of a file; ``base + 1`` if it has none."""
    file = OpenFile(str(path))
    end = base + 1
    for checked in check_file(file, 0, file.status()[0], Tail(base, 0, gaps=True)):
        end = max(end, checked.tail.next_offset)
    return end
