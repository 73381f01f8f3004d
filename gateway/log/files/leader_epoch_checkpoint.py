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
from gateway.log.files.checkpoint_file import format_entries, numbers, parse_entries
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
    entries = [_entry(*one) for one in parse_entries(data, _BYTES_MAX, FILE_NAME)]
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
    """Return the file's bytes for (epoch, start offset) pairs."""
    return format_entries([f"{epoch} {offset}" for epoch, offset in entries])


def _entry(number: int, line: str) -> tuple[int, int]:
    try:
        epoch, offset = numbers(line.split())
    except ValueError:
        raise DecodeError(f"line {number} is not an epoch and an offset: {line!r}") from None
    return epoch, offset
