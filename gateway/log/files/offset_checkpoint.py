"""Reads and writes Kafka's files with an offset for each partition of a data directory:
``recovery-point-offset-checkpoint``, ``replication-offset-checkpoint``,
``log-start-offset-checkpoint`` and ``cleaner-offset-checkpoint``.

It does not decide whether an offset is true. Source: ``OffsetCheckpointFile``.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.files.checkpoint_file import format_entries, numbers, parse_entries
from gateway.log.files.disk import Disk, doing
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular

#: Everything before the offset is on disk, the indexes included. A start reads what is behind it.
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
#: Records before the offset were deleted by a client.
LOG_START: Final = "log-start-offset-checkpoint"
#: The offset is the high watermark, as far as the replica knows.
REPLICATION: Final = "replication-offset-checkpoint"
#: Records before the offset were compacted once.
CLEANER: Final = "cleaner-offset-checkpoint"
_BYTES_MAX: Final = 64 * MIB
#: (topic, partition) -> offset.
Offsets = dict[tuple[str, int], int]


def read_offsets(path: Path) -> Offsets:
    """Return the offset of each partition; none without the file. Raises OSError, and DecodeError
    with the file as ``path``.
    """
    try:
        return parse_offsets(read_regular(path, _BYTES_MAX + 1))
    except FileNotFoundError:
        return {}
    except DecodeError as error:
        raise DecodeError(error.reason, path=str(path)) from None


def parse_offsets(data: bytes) -> Offsets:
    """Parse the file's bytes: version 0, the number of entries, one entry a line. Raises
    DecodeError.
    """
    entries = parse_entries(data, _BYTES_MAX, "offset checkpoint")
    offsets = dict(_entry(*one) for one in entries)
    if len(offsets) != len(entries):
        raise DecodeError("names a partition more than once")
    return offsets


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return the file's bytes."""
    return format_entries(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    )


def _entry(number: int, line: str) -> tuple[tuple[str, int], int]:
    try:
        topic, *rest = line.split()
        partition, offset = numbers(rest)
    except ValueError:
        raise DecodeError(
            f"line {number} is not a topic, a partition and an offset: {line!r}"
        ) from None
    return (topic, partition), offset


class OffsetCheckpoint:
    """One such file, for the partitions of a data directory; any thread may use it."""

    def __init__(self, path: Path, disk: Disk, problems: list[str]) -> None:
        """Read the file. ``problems`` gets a sentence if it is damaged. Raises DiskFailed."""
        self._path = path
        self._disk = disk
        # The partitions have threads of their own.
        self._lock = threading.Lock()
        with doing("read", path):
            try:
                self._offsets = read_offsets(path)
            except DecodeError as error:
                problems.append(f"{error}; taken as none")
                self._offsets = {}
        self._saved = dict(self._offsets)  # what the file holds

    def get(self, topic: str, partition: int) -> int | None:
        """Return the offset of a partition, None without one."""
        return self._offsets.get((topic, partition))

    def note(self, topic: str, partition: int, offset: int) -> None:
        """Set the offset of a partition; :meth:`save` writes it."""
        with self._lock:
            self._offsets[topic, partition] = offset

    def save(self) -> None:
        """Write what was noted, durably, for all partitions at once. Raises DiskFailed."""
        with self._lock:
            self._save(dict(self._offsets))

    def write(self, topic: str, partition: int, offset: int | None) -> None:
        """Store the offset of a partition durably, or that it has none. Raises DiskFailed."""
        key = (topic, partition)
        with self._lock:
            offsets = {one: at for one, at in self._offsets.items() if one != key}
            if offset is not None:
                offsets[key] = offset
            # Without a comparison with what was noted, which may not be in the file.
            if offsets.get(key) != self._saved.get(key):
                self._save(offsets)
            self._offsets = offsets

    def lower(self, topic: str, partition: int, offset: int) -> None:
        """Store, durably, that the offset of a partition is no larger than ``offset``: what comes
        behind it is about to change. Raises DiskFailed.
        """
        key = (topic, partition)
        with self._lock:
            known = [one[key] for one in (self._offsets, self._saved) if key in one]
            if known and max(known) > offset:
                offsets = {**self._offsets, key: min(offset, self._offsets.get(key, offset))}
                self._save(offsets)
                self._offsets = offsets

    def _save(self, offsets: Offsets) -> None:
        if offsets != self._saved:
            self._disk.replace(self._path, format_offsets(offsets))
            self._saved = dict(offsets)


class Checkpoints:
    """The files of a data directory with an offset for each partition (``LogManager``). The
    metadata log has an entry among the recovery points.
    """

    def __init__(self, data_dir: Path, disk: Disk, problems: list[str]) -> None:
        """As :class:`OffsetCheckpoint`."""
        self.recovery_points = OffsetCheckpoint(data_dir / RECOVERY_POINT, disk, problems)
        self.log_starts = OffsetCheckpoint(data_dir / LOG_START, disk, problems)
        self.cleaned = OffsetCheckpoint(data_dir / CLEANER, disk, problems)
        self.high_watermarks = OffsetCheckpoint(data_dir / REPLICATION, disk, problems)

    @property
    def all(self) -> tuple[OffsetCheckpoint, ...]:
        """The files, in an order that is always the same."""
        return self.recovery_points, self.log_starts, self.cleaned, self.high_watermarks

    def forget(self, topic: str, partition: int) -> None:
        """The partition is deleted, or begins anew. Raises DiskFailed."""
        for one in self.all:
            one.write(topic, partition, None)
