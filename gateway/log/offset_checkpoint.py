"""``replication-offset-checkpoint``: the high watermark of each partition in a log directory (``OffsetCheckpointFile``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from kwire.errors import DecodeError

FILE_NAME: Final = "replication-offset-checkpoint"
_BYTES_MAX: Final = 1024 * 1024
_ENTRY: Final = re.compile(r"(\S+) ([0-9]{1,10}) ([0-9]{1,19})", re.ASCII)


def read_offsets(path: Path) -> dict[tuple[str, int], int]:
    """Offset by (topic, partition). Raises OSError, and DecodeError with the file as ``path``."""
    with path.open("rb") as file:
        data = file.read(_BYTES_MAX + 1)
    try:
        return parse_offsets(data)
    except DecodeError as error:
        raise DecodeError(error.reason, path=str(path)) from None


def parse_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Offset by (topic, partition) in the file's bytes: version 0, the number of entries, an entry a line. Raises DecodeError."""
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no {FILE_NAME}")
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0] != "0":
        raise DecodeError(f"does not begin with version 0 and a count: {lines[:1]}")
    offsets = dict(_entry(number, line) for number, line in enumerate(lines[2:], 3))
    if lines[1] != str(len(offsets)):
        raise DecodeError(f"announces {lines[1]!r} entries and has {len(offsets)}")
    return offsets


def format_offsets(offsets: dict[tuple[str, int], int]) -> bytes:
    """The file's bytes as Kafka's ``CheckpointFile`` writes them."""
    lines = ["0", str(len(offsets)), *(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())]
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


def _entry(number: int, line: str) -> tuple[tuple[str, int], int]:
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise DecodeError(f"line {number} is not a topic, a partition and an offset: {line!r}")
    return (match[1], int(match[2])), int(match[3])
