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

from gateway.base.sizes import MIB
from gateway.log.files.disk import TEMPORARY, Disk, doing
from gateway.log.files.errors import LogDamaged
from gateway.log.partition.loaded_log import LoadedLog
from gateway.log.partition.log_settings import LogSettings
from gateway.log.segments.batch_index import BatchIndex, Status
from gateway.log.segments.epoch_cache import EpochCache
from gateway.log.segments.segment import Segment, scan_segment
from kwire.metadata_log.file_names import parse_segment_name, segment_name
from kwire.metadata_log.open_file import OpenFile
from kwire.records.header import BatchHeader, iter_batches

_STEP_BYTES: Final = 8 * MIB
_READ_BYTES: Final = MIB
_INDEX: Final = re.compile(r"([0-9]{20})\.(index|timeindex|txnindex)", re.ASCII)
_ADVICE: Final = "restore the directory from a copy, or delete the topic"


def load_log(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    problems: list[str],
    on_batch: Callable[[BatchHeader], None],
) -> LoadedLog:
    """Open the log in ``directory``, which must exist. ``on_batch`` gets the header of every batch,
    in order. ``problems`` gets a sentence for each repair. Raises LogDamaged, DiskFailed.
    """
    with doing("read", directory):
        names = {entry.name for entry in directory.iterdir()}
        bases = sorted(base for base in map(parse_segment_name, names) if base is not None)
        indexes = _checked(directory, bases)
        _remove_leftovers(directory, disk, names)
        active = _active(directory, disk, settings, bases, indexes, problems)
    try:
        for index in indexes:
            for header in headers(index):
                on_batch(header)
        epochs: list[tuple[int, int]] = []
        for index in indexes:
            epochs += [one for one in index.epochs if not epochs or one[0] > epochs[-1][0]]
        cache = EpochCache(epochs)
        cache.save(disk, directory)
    except BaseException:
        active.close()
        raise
    start = bases[0] if bases else 0
    return LoadedLog(bases[:-1], active, cache, start)


def index_of(directory: Path, base: int) -> BatchIndex:
    """Return the index of a segment, as far as its batches are whole. Raises OSError."""
    index = BatchIndex(OpenFile(str(directory / segment_name(base))), base)
    while index.status is Status.BEHIND:
        index.scan(_STEP_BYTES)
    return index


def headers(index: BatchIndex) -> Iterator[BatchHeader]:
    """Yield the header of every batch that is indexed. Raises OSError."""
    position = 0
    while position < index.end:
        length = min(_READ_BYTES, index.end - position)
        some = list(iter_batches(index.file.read(position, length)))
        if not some:  # a batch that is larger than a piece
            length = index.end - position
            some = list(itertools.islice(iter_batches(index.file.read(position, length)), 1))
        yield from some
        position += some[-1].end


def _checked(directory: Path, bases: list[int]) -> list[BatchIndex]:
    indexes = [index_of(directory, base) for base in bases]
    for index, following in itertools.pairwise(indexes):
        if index.status is not Status.AT_END or index.next_offset != following.base_offset:
            reason = (
                index.problem.reason
                if index.problem
                else (
                    f"it ends at offset {index.next_offset}, and the next segment begins at "
                    f"{following.base_offset}"
                )
            )
            raise LogDamaged(index.file.path, index.end, reason, _ADVICE)
    for before, after in itertools.pairwise(one for one in indexes if one.epochs):
        if after.epochs[0][0] < before.epochs[-1][0]:
            reason = f"epoch {after.epochs[0][0]} follows epoch {before.epochs[-1][0]}"
            raise LogDamaged(after.file.path, 0, reason, _ADVICE)
    return indexes


def _active(
    directory: Path,
    disk: Disk,
    settings: LogSettings,
    bases: list[int],
    indexes: list[BatchIndex],
    problems: list[str],
) -> Segment:
    """Open the last segment, without a bad end; create the first one in an empty directory."""
    if not bases:
        active = Segment.create(disk, directory, 0, settings.index_interval_bytes)
        indexes.append(index_of(directory, 0))
        return active
    scan = scan_segment(directory, bases[-1], settings.index_interval_bytes, 0)
    active = Segment(disk, directory, scan)
    if scan.file_size > scan.size:
        why = scan.fault.reason if scan.fault else "an unfinished batch"
        problems.append(
            f"{directory / segment_name(bases[-1])}: {scan.file_size - scan.size} bytes from byte "
            f"{scan.size} on cut off: {why}"
        )
        indexes[-1] = index_of(directory, bases[-1])
    return active


def _remove_leftovers(directory: Path, disk: Disk, names: set[str]) -> None:
    for name in sorted(names):
        index = _INDEX.fullmatch(name)
        if name.endswith(TEMPORARY) or (index and f"{index[1]}.log" not in names):
            disk.remove(directory / name)
