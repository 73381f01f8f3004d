"""Looks at runs of records that have the same layout, all of them at once.

Most producers send records of one size after the other. Their sizes stand at equal distances then,
and so do their timestamp and offset deltas: one slice takes a byte of each record. A run is only
ever found good: records that are not are left to ``record_check``, which knows what is wrong.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kwire.errors import DecodeError
from kwire.varint import read_unsigned_varint, read_unsigned_varlong

#: Fewer records are looked at one by one in less time.
RUN_MIN: Final = 16
#: Offset deltas below these take one byte, or two, as zigzag varints.
_ONE_BYTE, _TWO_BYTES = 64, 8192
_DELTAS: Final = bytes(2 * number for number in range(_ONE_BYTE))
_LOW: Final = bytes(2 * number & 0x7F | 0x80 for number in range(_TWO_BYTES))
_HIGH: Final = bytes(2 * number >> 7 for number in range(_TWO_BYTES))


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
    layout = _layout(d, p, first) if first < _TWO_BYTES and len(numbers) >= RUN_MIN else None
    if layout is None:
        return None
    width = 1 if first < _ONE_BYTE else 2
    most = min(len(numbers), (_ONE_BYTE if width == 1 else _TWO_BYTES) - first)
    size = layout.size
    count = _count_equal(d, p, layout, min(most, (len(d) - p) // size))
    if count < RUN_MIN:
        return None
    end = p + count * size
    at = p + layout.delta_end
    last = first + count
    if width == 1:
        is_right = d[at:end:size] == _DELTAS[first:last]
    else:
        is_right = (
            d[at:end:size] == _LOW[first:last] and d[at + 1 : end : size] == _HIGH[first:last]
        )
    deltas = _timestamp_deltas(d, p, end, layout) if is_right else None
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
        key_at = delta_end + (1 if number < _ONE_BYTE else 2)
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
