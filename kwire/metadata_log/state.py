"""Builds a cluster's state from segments and snapshots.

It begins with the newest snapshot that the log continues, or with offset 0, and folds the log up to
an offset or a time. It reads files only; ``kwire.metadata_log.fold`` folds records from anywhere.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kwire.errors import DecodeError, WireError
from kwire.metadata_log.at import At, time_text
from kwire.metadata_log.errors import MetadataLogError
from kwire.metadata_log.file_names import (
    BOOTSTRAP_SNAPSHOT,
    parse_segment_name,
    parse_snapshot_name,
)
from kwire.metadata_log.fold import Fold, State
from kwire.metadata_log.reader import read_log_file
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_PARTITION
from kwire.records import decode_control_record

if TYPE_CHECKING:
    from kwire.records import BatchHeader, Record

_DIRECTORY: Final = CLUSTER_METADATA_PARTITION
#: Called with (bytes read, bytes to read) while the segments are read.
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class _Files:
    """Segments by base offset and snapshots by end, both oldest first, and their common name in
    messages.
    """

    where: str
    segments: list[tuple[int, Path]] = field(default_factory=list)
    snapshots: list[tuple[SnapshotId, Path]] = field(default_factory=list)

    def continues(self, offset: int) -> bool:
        """True if the log on disk continues at ``offset``. A directory without segments ends at
        every snapshot.
        """
        return not self.segments or self.segments[0][0] <= offset


class _UnusableSnapshot(Exception):
    """A snapshot that is damaged, incomplete, or later than the requested time."""


def load_state(
    paths: Sequence[Path], at: At | None = None, *, progress: Progress | None = None
) -> State:
    """Return the state in a directory, or in the given segments and snapshots together, up to
    ``at`` (the end of the log by default).

    Raises MetadataLogError, which names the file, the fault and its place.
    """
    at = at or At()
    try:
        files = _find(paths)
        fold, start = _start(files, at)
        end = _read_segments(files, fold, start, progress)
    except FileNotFoundError as error:
        raise MetadataLogError(
            f"{error.filename}: gone; a running Kafka cleans up old ones: run this again"
        ) from None
    except OSError as error:
        raise MetadataLogError(f"{error.filename}: {error.strerror}") from None
    if at.offset is not None and end < at.offset:
        raise MetadataLogError(
            f"{files.where}: ends at offset {end}, there is no state before {at.offset} yet"
        )
    return fold.state()


# --- which files
# ----------------------------------------------------------------------


def _find(paths: Sequence[Path]) -> _Files:
    files = _Files(str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more")
    for path in paths:
        if path.is_dir():
            inside = path / _DIRECTORY
            for one in (inside if inside.is_dir() else path).iterdir():
                _add(files, one)
        elif not _add(files, path, named=True):
            raise MetadataLogError(
                f"{path}: name a {_DIRECTORY} directory, segments (OFFSET.log) or snapshots"
                " (OFFSET-EPOCH.checkpoint), under the names that Kafka gave them: these say where"
                " they belong"
            )
    if not files.segments and not files.snapshots:
        raise MetadataLogError(
            f"{files.where}: no segment or snapshot in it; name a {_DIRECTORY} directory or its"
            " parent"
        )
    files.segments.sort()
    files.snapshots.sort()
    return files


def _add(files: _Files, path: Path, named: bool = False) -> bool:
    """Add ``path`` if its name is a segment's or snapshot's. The bootstrap snapshot holds no
    metadata: it counts if ``named``.
    """
    base, snapshot = parse_segment_name(path.name), parse_snapshot_name(path.name)
    if base is not None:
        files.segments.append((base, path))
    elif snapshot is not None and (named or snapshot != BOOTSTRAP_SNAPSHOT):
        files.snapshots.append((snapshot, path))
    return base is not None or snapshot is not None


def _start(files: _Files, at: At) -> tuple[Fold, int]:
    """Return the newest usable snapshot within ``at`` that the log continues, or an empty state at
    offset 0; and the next offset.
    """
    notes: list[str] = []
    for snapshot, path in reversed(files.snapshots):
        wanted_end = snapshot.end_offset == at.offset
        if (at.offset is not None and snapshot.end_offset > at.offset) or not (
            wanted_end or files.continues(snapshot.end_offset)
        ):
            continue
        try:
            fold = _load_snapshot(files.where, snapshot, path, at)
        except _UnusableSnapshot as error:
            notes.append(f"{path}: {error}; passed over")
            continue
        fold.notes += notes
        return fold, snapshot.end_offset
    if files.segments and files.segments[0][0] == 0:
        fold = Fold(files.where, at)
        fold.notes += notes
        return fold, 0
    raise MetadataLogError(_no_start(files, at, notes))


def _no_start(files: _Files, at: At, notes: list[str]) -> str:
    """Return why there is no state, and a remedy."""
    told = f" ({'; '.join(notes)})" if notes else ""
    where = files.where
    usable = [
        snapshot.end_offset
        for snapshot, _ in files.snapshots
        if files.continues(snapshot.end_offset)
    ]
    if usable and at.offset is not None and at.offset < usable[0]:
        return (
            f"{files.where}: its log starts at offset {usable[0]}: the state before offset"
            f" {at.offset} is no longer there{told}"
        )
    if usable and at.time_ms is not None:
        return (
            f"{where}: its log starts at offset {usable[0]}, later than"
            f" {time_text(at.time_ms)}{told}"
        )
    if files.segments:
        base = files.segments[0][0]
        return (
            f"{where}: begins at offset {base}, and no usable snapshot leads there: name one that"
            f" ends at {base} or later{told}"
        )
    return f"{where}: no usable snapshot{told}"


# --- reading
# ----------------------------------------------------------------------


def _load_snapshot(where: str, snapshot: SnapshotId, path: Path, at: At) -> Fold:
    """Return a fold of the whole snapshot. Raises _UnusableSnapshot."""
    fold = Fold(where, At())
    timestamp, last = None, ""
    try:
        for header, records in _read(path):
            for record in records:
                if not header.is_control:
                    fold.take(
                        record.offset, header.partition_leader_epoch, record.timestamp, record.value
                    )
                    last = ""
                    continue
                control = decode_control_record(record)
                last = control.name
                if control.name == "SNAPSHOT_HEADER" and control.message is not None:
                    timestamp = int(control.message.last_contained_log_timestamp)  # type: ignore[attr-defined]
                    if at.time_ms is not None and timestamp > at.time_ms:
                        raise _UnusableSnapshot(
                            f"is of {time_text(timestamp)}, later than {time_text(at.time_ms)}"
                        )
    except DecodeError as error:
        raise _UnusableSnapshot(f"damaged at byte {error.offset}: {error.reason}") from None
    except WireError as error:
        raise _UnusableSnapshot(f"damaged: {error}") from None
    except MetadataLogError as error:
        raise _UnusableSnapshot(error.reason) from None
    if last != "SNAPSHOT_FOOTER":
        raise _UnusableSnapshot("has no footer: it was never finished")
    fold.loader.skip_to(snapshot.end_offset, snapshot.epoch)
    fold.at, fold.timestamp = at, timestamp
    return fold


def _read_segments(files: _Files, fold: Fold, start: int, progress: Progress | None) -> int:
    """Fold the log from offset ``start`` to its end or ``at``; return the next offset."""
    first = max(bisect.bisect_right(files.segments, start, key=lambda segment: segment[0]) - 1, 0)
    expected = start
    done, sizes = 0, {path: path.stat().st_size for _, path in files.segments[first:]}
    total = sum(sizes.values())
    for base, path in files.segments[first:]:
        if expected == fold.at.offset:
            break
        if base > expected:
            raise _gap(path, expected, base)
        for header, records in _batches(
            path, expected, fold, is_last=path == files.segments[-1][1]
        ):
            if progress is not None:
                progress(done + header.position, total)
            if header.base_offset > expected:
                raise _gap(path, expected, header.base_offset)
            if not _fold_batch(fold, header, records, expected):
                return expected if fold.at.offset is None else fold.at.offset
            expected = max(expected, header.last_offset + 1)
            if expected == fold.at.offset:
                break
        done += sizes[path]
    return expected


def _batches(
    path: Path, expected: int, fold: Fold, *, is_last: bool
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield the batches of a segment. An incomplete batch at the end of the log is reported, other
    damage is an error.
    """
    after = expected
    try:
        for header, records in _read(path):
            yield header, records
            after = max(after, header.last_offset + 1)
    except DecodeError as error:
        if error.rule == "truncated" and is_last:
            fold.notes.append(
                f"{path}: ends inside a batch at byte {error.offset}: still being written, or"
                " cut off"
            )
            return
        raise MetadataLogError(
            f"{path}: damaged at byte {error.offset}, after offset {after - 1}: {error.reason}",
            intact_before=after,
        ) from None


def _read(path: Path) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Read as ``read_log_file`` does, and add the file's name to errors that lack it (failed
    reads).
    """
    try:
        yield from read_log_file(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _fold_batch(fold: Fold, header: BatchHeader, records: list[Record], expected: int) -> bool:
    """Fold the records from ``expected`` on; return False at the first record past the end of the
    state.
    """
    for record in records:
        if record.offset < expected:
            continue
        if fold.at.ends_before(record.offset, record.timestamp):
            return False
        if header.is_control:
            fold.skip_to(record.offset + 1, header.partition_leader_epoch, record.timestamp)
        else:
            fold.take(record.offset, header.partition_leader_epoch, record.timestamp, record.value)
    return True


def _gap(path: Path, expected: int, found: int) -> MetadataLogError:
    return MetadataLogError(
        f"{path}: offsets {expected} to {found - 1} are missing before it: name the files that hold"
        " them",
        intact_before=expected,
    )
