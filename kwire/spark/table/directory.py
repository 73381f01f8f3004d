"""Reads a copy of a log directory from its snapshot on, as ``kwire serve`` would serve it.

The driver reads it, without Spark: the rows are folded there, one file after another, and a job of
Spark would only bring them to the driver again. It knows no tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kwire.records import BATCH_OVERHEAD, read_header
from kwire.spark.record_columns import Columns
from kwire.spark.source.files import Damage, find_files, read_columns
from kwire.spark.table.rows import Row

_OFFSET_MAX = (1 << 63) - 1
_PROPERTIES = "meta.properties"


def cluster_of(path: str) -> str | None:
    """The cluster id in ``meta.properties`` of a log directory, or beside its partition; None if
    there is no such file, as in most copies of a partition alone.
    """
    for directory in (path, os.path.dirname(os.path.abspath(path))):
        try:
            with open(os.path.join(directory, _PROPERTIES), encoding="latin-1") as file:
                lines = [line.strip().partition("=") for line in file]
        except OSError:
            continue
        found = next((value.strip() for name, _, value in lines if name == "cluster.id"), "")
        return found.replace("\\", "") or None
    return None


def start_of(path: str) -> int:
    """The offset at which the first segment of a log directory begins. Raises FileNotFoundError."""
    return _offset(find_files([path], "segments")[0])


def directory_rows(path: str, since: int = 0) -> Iterator[list[Row]]:
    """The records of a log directory from offset ``since`` on, some thousands at a time. A damaged
    place is a row with an ``error``, and offset -1 if its offset is not known.

    If the log starts after that offset, the records of the oldest snapshot that the log continues
    come first, at the offsets just below the snapshot's end, as in ``kwire serve``. Raises
    FileNotFoundError where there is no segment, and ValueError where there is no such snapshot.
    """
    segments = find_files([path], "segments")
    start = _offset(segments[0])
    if start <= since:
        return _all_rows(segments, since)
    snapshot = _covering(path, start)
    if snapshot is None:
        raise ValueError(
            f"{path}: the log starts at offset {start}, and no snapshot that covers what was before"
            " is there"
        )
    end = _offset(snapshot)
    return _all_rows(segments, end, snapshot, end - _next_offset(snapshot))


def covering(path: str, start: int) -> int | None:
    """The end of the oldest snapshot that a log from offset ``start`` on continues, None if there
    is none or ``start`` is 0.
    """
    snapshot = _covering(path, start) if start else None
    return None if snapshot is None else _offset(snapshot)


def _covering(path: str, start: int) -> str | None:
    later = (file for file in _snapshots(path) if _offset(file) >= start)
    return min(later, key=_offset, default=None)


def _all_rows(
    segments: list[str], since: int, snapshot: str | None = None, first: int = 0
) -> Iterator[list[Row]]:
    """Yield the rows of ``snapshot``, which counts its own records from 0, at offsets from
    ``first`` on, then those of ``segments`` from ``since`` on.
    """
    if snapshot is not None:
        yield from _rows(snapshot, 0, first)
    ends = [*map(_offset, segments[1:]), _OFFSET_MAX]
    for segment, end in zip(segments, ends, strict=True):
        if end > since:
            yield from _rows(segment, since, 0)


def _rows(file: str, since: int, shift: int) -> Iterator[list[Row]]:
    for found in read_columns(file, since):
        if isinstance(found, Columns):
            rows = rows_of(found.within(since, _OFFSET_MAX), shift)
        else:
            rows = _of_damage(found, file, since, shift)
        if rows:
            yield rows


def rows_of(records: Columns, shift: int = 0) -> list[Row]:
    """The records as rows, at offsets that are larger by ``shift``."""
    return list(
        map(
            Row,
            (records.offsets + shift).tolist(),
            records.times.tolist(),
            records.values.to_list(),
            records.epochs.tolist(),
        )
    )


def _of_damage(damage: Damage, file: str, since: int, shift: int) -> list[Row]:
    if damage.offset is None:
        return [Row(-1, 0, None, None, damage.sentence(file))]
    row = Row(damage.offset + shift, 0, None, None, damage.sentence(file))
    return [row] if damage.offset >= since else []


def _next_offset(snapshot: str) -> int:
    """The offset after the last record of a snapshot, control records included. Raises DecodeError,
    OSError.
    """
    found = at = 0
    with open(snapshot, "rb") as file:
        while head := file.read(BATCH_OVERHEAD):
            header = read_header(head)
            found, at = header.next_offset, at + header.size
            file.seek(at)
    return found


def _snapshots(path: str) -> list[str]:
    try:
        return find_files([path], "snapshots")
    except FileNotFoundError:
        return []


def _offset(file: str) -> int:
    return int(os.path.basename(file)[:20])
