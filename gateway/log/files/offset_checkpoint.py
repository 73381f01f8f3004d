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
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no offset checkpoint")
    # A byte that is not ASCII becomes one that no topic contains, and is refused below.
    lines = data.decode("ascii", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0":
        raise DecodeError(f"does not begin with version 0 and a count: {lines[:1]}")
    offsets = dict(_entry(number, line) for number, line in enumerate(lines[2:], 3))
    # The count shows a file that was cut (``CheckpointFile`` throws IOException).
    if lines[1].strip() != str(len(offsets)):
        raise DecodeError(f"announces {lines[1]!r} entries and has {len(offsets)}")
    return offsets


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """Return the file's bytes, as Kafka's ``CheckpointFile`` writes them."""
    rows = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "".join(f"{line}\n" for line in ("0", str(len(rows)), *rows)).encode("ascii")


def _entry(number: int, line: str) -> tuple[tuple[str, int], int]:
    fields = line.split()
    if len(fields) != 3 or not all(field.isdigit() and len(field) < 20 for field in fields[1:]):
        raise DecodeError(f"line {number} is not a topic, a partition and an offset: {line!r}")
    return (fields[0], int(fields[1])), int(fields[2])
