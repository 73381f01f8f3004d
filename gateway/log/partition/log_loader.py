"""Opens the log of a partition that holds data, after a clean stop or a crash (``LogLoader``).

Batches are read from the recovery point on, and their CRC compared: what is before it was on disk,
indexes and leader epochs included. Where these files are missing or contradict the batches, more is
read. A last segment with a bad end is cut there, as in Kafka: acknowledged records of a process
that was killed are in the page cache, so only a crash of the machine loses some. Damage in the
segments before that is refused where it is read, and nothing is changed: Kafka deletes what is
behind it. Blocking.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gateway.log.files.disk import TEMPORARY, Disk, doing
from gateway.log.files.errors import LogDamaged
from gateway.log.files.leader_epoch_checkpoint import FILE_NAME as LEADER_EPOCHS
from gateway.log.files.leader_epoch_checkpoint import read_leader_epochs
from gateway.log.partition.loaded_log import LoadedLog, restart
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.batch_check import Checked, batch_at
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment
from gateway.log.segments.segment_scan import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentScan,
    scan_from,
    scan_segment,
)
from kwire.errors import DecodeError
from kwire.metadata_log.file_names import parse_segment_name, segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.records.header import BatchHeader, read_header

_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)
_ADVICE: Final = "restore the directory from a copy, or delete the topic"


class KnownPart(NamedTuple):
    """Says of which part of a log nothing need be read: batches and indexes below
    ``recovery_point`` are on disk, and ``on_batch`` knows the batches below ``folded``. Records
    below ``log_start`` were deleted by a client.
    """

    recovery_point: int = 0
    folded: int = 0
    log_start: int = 0


class _Read(NamedTuple):
    """A segment that was read, and the base offset of the next one, None for the last."""

    scan: SegmentScan
    following: int | None


def load_log(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    problems: list[str],
    on_batch: Callable[[BatchHeader, bytes], None],
    known: KnownPart = KnownPart(),  # noqa: B008 (it cannot change)
) -> LoadedLog:
    """Open the log in ``directory``, which must exist. ``on_batch`` gets the header of every batch
    that is read, in order, and the bytes that it is in: those from ``known.folded`` on, and some
    before. ``problems`` gets a sentence for each repair. Raises LogDamaged, DiskFailed.
    """

    def note(checked: Checked) -> None:
        for header in iter_headers(checked):
            on_batch(header, checked.data)

    with doing("read", directory):
        names = {entry.name for entry in directory.iterdir()}
        bases = sorted(base for base in map(parse_segment_name, names) if base is not None)
        reader = _Reader(directory, settings, names, bases, known)
        found = [reader.read(at, note) for at in range(len(bases)) if reader.has_to_read(at)]
        _check_closed(directory, found)
        _remove_leftovers(directory, disk, names)
        active = _active(directory, disk, settings, found, problems)
    try:
        for scan in (one.scan for one in found if one.following is not None):
            _complete(directory, disk, scan)
        _report_end(directory, active.end_offset, known.recovery_point, problems)
        cache, closed = reader.epochs(found), bases[:-1]
        if known.log_start > active.end_offset:
            # They were deleted, and those behind them were lost (``LogLoader``): offsets that a
            # client saw are not given out again.
            active.close()
            doomed = [*closed, active.base_offset]
            active = restart(directory, disk, settings, doomed, known.log_start, cache)
            closed = []
        start = max(known.log_start, closed[0] if closed else active.base_offset)
        cache.truncate_from_start(start)
        cache.save(disk, directory)
    except BaseException:
        active.close()
        raise
    return LoadedLog(closed, active, cache, start)


class _Reader:
    """Reads those segments of ``bases`` of which something is not known."""

    def __init__(
        self,
        directory: Path,
        settings: LogSettings,
        names: set[str],
        bases: Sequence[int],
        known: KnownPart,
    ) -> None:
        """Raises OSError."""
        self._directory = directory
        self._interval = settings.index_interval_bytes
        self._names = names
        self._bases = bases
        self._known = known
        self._saved = _saved_epochs(directory)
        #: Everything from this offset on is read, and little before it.
        self._from = min(known.recovery_point, known.folded)
        self._first = self._first_unknown()
        if self._from and not self._agree():
            self._from = self._first = 0

    def has_to_read(self, at: int) -> bool:
        """Whether segment number ``at`` has anything that is not known."""
        path = Path(segment_name(self._bases[at]))
        indexes = (path.with_suffix(suffix).name for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        return at >= self._first or not self._names.issuperset(indexes)

    def read(self, at: int, note: Callable[[Checked], None]) -> _Read:
        """Read what is not known of a segment. Raises OSError."""
        base, scan = self._bases[at], None
        if base < self._from:
            scan = scan_from(
                self._directory,
                base,
                self._interval,
                self._from,
                self._saved or (),
                self._known.log_start,
                note,
                gaps=True,
            )
        if scan is None:
            scan = scan_segment(self._directory, base, self._interval, 0, note, gaps=True)
        return _Read(scan, self._following(at))

    def epochs(self, found: Sequence[_Read]) -> EpochCache:
        """Return the epochs of the log: of segments that were not read, those that the file has."""
        first = self._bases[self._first] if self._first else 0
        entries = [one for one in self._saved or () if one[1] < first]
        for scan in (one.scan for one in found if one.scan.base_offset >= first):
            entries += [new for new in scan.epochs if not entries or new[0] > entries[-1][0]]
        return EpochCache(entries, saved=self._saved)

    def _agree(self) -> bool:
        """Return whether the leader epochs in the file are those of the first segment that is read
        and of the batches before it.
        """
        if self._saved is None or not self._bases:
            return False
        path = self._directory / segment_name(self._bases[self._first])
        first = batch_at(OpenFile(str(path)), 0)
        if first is None or first.base_offset < self._known.log_start:
            return True
        held = [epoch for epoch, offset in self._saved if offset <= first.base_offset]
        return held[-1:] == [first.epoch]

    def _first_unknown(self) -> int:
        """Return the number of the first segment that has offsets from ``_from`` on, or the last
        one.
        """
        return sum(base <= self._from for base in self._bases[1:])

    def _following(self, at: int) -> int | None:
        return self._bases[at + 1] if at + 1 < len(self._bases) else None


def _saved_epochs(directory: Path) -> list[tuple[int, int]] | None:
    """Return the content of ``leader-epoch-checkpoint``; None if it cannot be read."""
    try:
        return read_leader_epochs(directory / LEADER_EPOCHS)
    except (FileNotFoundError, DecodeError):
        return None


def iter_headers(checked: Checked) -> Iterator[BatchHeader]:
    """Yield the headers of batches that were read from a file."""
    if checked.batches:
        start = checked.batches[0].position
        for batch in checked.batches:
            yield read_header(checked.data, batch.position - start)


def _check_closed(directory: Path, found: Sequence[_Read]) -> None:
    """Compare the segments that were read with one another. Raises LogDamaged."""
    for scan, base in found:
        if base is None:
            continue
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
    scans = [one.scan for one in found if one.scan.epochs]
    for before, after in itertools.pairwise(scans):
        if after.epochs[0][0] < before.epochs[-1][0]:
            reason = f"epoch {after.epochs[0][0]} follows epoch {before.epochs[-1][0]}"
            path = directory / segment_name(after.base_offset)
            raise LogDamaged(str(path), 0, reason, _ADVICE)


def _active(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    found: Sequence[_Read],
    problems: list[str],
) -> Segment:
    """Open the last segment, without a bad end; create the first one in an empty directory."""
    if not found:
        return Segment.create(disk, directory, 0, settings.index_interval_bytes)
    scan = found[-1].scan
    if scan.file_size > scan.size:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        problems.append(
            f"{directory / segment_name(scan.base_offset)}: {scan.file_size - scan.size} "
            f"bytes from byte {scan.size} on cut off: {why}"
        )
    return Segment(disk, directory, scan)


def _complete(directory: Path, disk: Disk, scan: SegmentScan) -> None:
    """Make the indexes of a closed segment that was read what its batches say, and everything of it
    durable. Raises DiskFailed.
    """
    # Before the comparison with the files, which have this entry.
    scan.index.add_latest_time()
    closed = Segment(disk, directory, scan)
    try:
        closed.seal()
    finally:
        closed.close()


def _report_end(directory: Path, end: int, recovery_point: int, problems: list[str]) -> None:
    if end < recovery_point:
        problems.append(
            f"{directory}: the log ends at offset {end}, but up to {recovery_point} it was on "
            "disk: the records between are lost"
        )


def _remove_leftovers(directory: Path, disk: Disk, names: set[str]) -> None:
    for name in sorted(names):
        index = _INDEX.fullmatch(name)
        if name.endswith(TEMPORARY) or (index and f"{index[1]}.log" not in names):
            disk.remove(directory / name)
