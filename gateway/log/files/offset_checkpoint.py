"""Reads and writes Kafka's files with an offset for each partition of a data directory:
``recovery-point-offset-checkpoint``, ``replication-offset-checkpoint``,
``log-start-offset-checkpoint`` and ``cleaner-offset-checkpoint``.

It does not decide whether an offset is true. Source: ``OffsetCheckpointFile``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from gateway.log.files.checkpoint_file import format_entries, numbers, parse_entries
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular

#: Everything before the offset is on disk, the indexes included.
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
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
