"""Looks at runs of records that have the same layout, all of them at once.

Most producers send records of one size after the other. Their sizes stand at equal distances then,
and so do their timestamp and offset deltas: one slice takes a byte of each record. A run is only
ever found good: records that are not are left to ``record_check``, which knows what is wrong.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.errors import DecodeError
from kwire.records.offset_deltas import TWO_BYTES, are_consecutive, same_width, width_of
from kwire.varint import read_unsigned_varint, read_unsigned_varlong

#: Fewer records are looked at one by one in less time.
RUN_MIN: Final = 16


class Run(NamedTuple):
    """Good records: how many, the position behind them, the least and the largest timestamp delta,
    whether they have keys.
    """

    records: int
    end: int
    earliest_delta: int
    latest_delta: int
    has_keys: bool


class _Layout(NamedTuple):
    """Where the fields of a record are, from its first byte on; ``fixed``: the positions of bytes
    that are the same in each record of its run.
    """

    size: int
    delta_at: int
    delta_end: int  #: where the offset delta begins
    has_key: bool
    fixed: list[int]


def find_run(d: bytes | bytearray, p: int, numbers: range) -> Run | None:
    """Return the records from position ``p`` on that have the layout of the first one, each with
    the offset delta of its number; None if they are few, or one of them may be wrong.
    """
    first = numbers.start
    # Most batches of records of different sizes are told by these two bytes.
    layout = _layout(d, p, first) if first < TWO_BYTES and len(numbers) >= RUN_MIN else None
    if layout is None:
        return None
    size = layout.size
    most = min(len(numbers), same_width(first), (len(d) - p) // size)
    count = _count_equal(d, p, layout, most)
    if count < RUN_MIN or not are_consecutive(d, p + layout.delta_end, size, first, count):
        return None
    end = p + count * size
    deltas = _timestamp_deltas(d, p, end, layout)
    if deltas is None:
        return None
    return Run(count, end, min(deltas), max(deltas), layout.has_key)


def _layout(d: bytes | bytearray, p: int, number: int) -> _Layout | None:
    """Return the layout of the record at ``p``, None if it has headers or is not whole."""
    try:
        length, behind = read_unsigned_varint(d, p)
        stop = behind + (length >> 1)
        if d[stop + (stop - p) * (RUN_MIN - 2)] != d[p]:
            return None
        delta_at = behind + 1
        delta_end = read_unsigned_varlong(d, delta_at)[1]
        key_at = delta_end + width_of(number)
        n, key = read_unsigned_varint(d, key_at)
        value_at = key if n & 1 else key + (n >> 1)
        has_key = not n & 1
        n, value = read_unsigned_varint(d, value_at)
    except (DecodeError, IndexError):
        return None
    behind_value = value if n & 1 else value + (n >> 1)
    if length & 1 or behind_value != stop - 1 or d[behind_value]:
        return None
    fixed = [*range(p, behind), *range(key_at, key), *range(value_at, value), behind_value]
    return _Layout(stop - p, delta_at - p, delta_end - p, has_key, [one - p for one in fixed])


def _count_equal(d: bytes | bytearray, p: int, layout: _Layout, count: int) -> int:
    """Return how many records have the fixed bytes of the first one, up to ``count``."""
    size = layout.size
    for at in layout.fixed:
        byte = d[p + at : p + at + 1]
        column = d[p + at : p + count * size : size]
        if column.count(byte) != count:
            count -= len(column.lstrip(byte))
    return count


def _timestamp_deltas(d: bytes | bytearray, p: int, end: int, layout: _Layout) -> set[int] | None:
    """Return the timestamp deltas of all records; None if one of them has another size."""
    size, positions = layout.size, range(p + layout.delta_at, p + layout.delta_end)
    columns = [d[at:end:size] for at in positions]
    if len(columns) == 1:
        varints = set(columns[0])
        return None if max(varints) > 127 else {n >> 1 ^ -(n & 1) for n in varints}
    found = set()
    for varint in set(zip(*columns, strict=True)):
        n, behind = read_unsigned_varlong(bytes(varint) + b"\0")
        if behind != len(varint):
            return None
        found.add(n >> 1 ^ -(n & 1))
    return found
