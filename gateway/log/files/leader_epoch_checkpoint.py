"""Reads and writes ``leader-epoch-checkpoint``: the first offset of each leader epoch.

It does not decide which entries are true: recovery compares them with the segments, as the file may
be behind them after a crash. Source: ``LeaderEpochCheckpointFile``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from kwire.errors import DecodeError
from kwire.metadata_log.open_file import read_regular

FILE_NAME: Final = "leader-epoch-checkpoint"
_BYTES_MAX: Final = 16 * MIB


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """Return (epoch, start offset) pairs, oldest first. Raises OSError, and DecodeError with the
    file as ``path``.
    """
    data = read_regular(path, _BYTES_MAX + 1)
    try:
        return parse_leader_epochs(data)
    except DecodeError as error:
        raise DecodeError(error.reason, path=str(path)) from None


def parse_leader_epochs(data: bytes) -> list[tuple[int, int]]:
    """Parse the file's bytes: version 0, the number of entries, one entry a line. Raises
    DecodeError.
    """
    if len(data) > _BYTES_MAX:
        raise DecodeError(f"more than {_BYTES_MAX} bytes are no {FILE_NAME}")
    # A byte that is not ASCII becomes one that no number contains, and is refused below.
    lines = data.decode("ascii", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0":
        raise DecodeError(f"does not begin with version 0 and a count: {lines[:1]}")
    # Line numbers as an editor shows them.
    entries = [_entry(number, line) for number, line in enumerate(lines[2:], 3)]
    # The count shows a file that was cut (``CheckpointFile`` throws IOException).
    if lines[1].strip() != str(len(entries)):
        raise DecodeError(f"announces {lines[1]!r} entries and has {len(entries)}")
    for number, (before, after) in enumerate(itertools.pairwise(entries), 4):
        # Equal offsets are fine: Kafka enters an epoch before its first record
        # (``initializeLeaderEpoch``).
        if after[0] <= before[0] or after[1] < before[1]:
            raise DecodeError(
                f"line {number}: epoch {after[0]} at {after[1]} follows epoch {before[0]} at "
                f"{before[1]}"
            )
    return entries


def format_leader_epochs(entries: Sequence[tuple[int, int]]) -> bytes:
    """Return the file's bytes for (epoch, start offset) pairs, as Kafka's ``CheckpointFile`` writes
    them.
    """
    lines = ["0", str(len(entries)), *(f"{epoch} {offset}" for epoch, offset in entries)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _entry(number: int, line: str) -> tuple[int, int]:
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() and len(field) < 20 for field in fields):
        raise DecodeError(f"line {number} is not an epoch and an offset: {line!r}")
    return int(fields[0]), int(fields[1])
