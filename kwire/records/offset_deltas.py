"""Compares the offset deltas of records of one size with consecutive numbers, one byte of all the
records at a time: no Python runs per record.

An offset delta is a zigzag varint. Deltas below ``ONE_BYTE`` take one byte, others below
``TWO_BYTES`` two; larger ones are not looked at here.
"""

from __future__ import annotations

from typing import Final

ONE_BYTE: Final = 64
TWO_BYTES: Final = 8192
_ONE: Final = bytes(2 * number for number in range(ONE_BYTE))
_LOW: Final = bytes(2 * number & 0x7F | 0x80 for number in range(TWO_BYTES))
_HIGH: Final = bytes(2 * number >> 7 for number in range(TWO_BYTES))


def width_of(number: int) -> int:
    """Return the bytes of the offset delta ``number``, which is below ``TWO_BYTES``."""
    return 1 if number < ONE_BYTE else 2


def same_width(number: int) -> int:
    """Return how many consecutive offset deltas from ``number`` on are as long as it."""
    return (ONE_BYTE if number < ONE_BYTE else TWO_BYTES) - number


def are_consecutive(d: bytes | bytearray, at: int, size: int, number: int, count: int) -> bool:
    """Whether the ``count`` offset deltas at ``at`` and every ``size`` bytes behind it are
    ``number``, ``number + 1`` and so on, all of one width.
    """
    end, last = at + count * size, number + count
    first = d[at:end:size]
    if number < ONE_BYTE:
        return first == _ONE[number:last]
    return first == _LOW[number:last] and d[at + 1 : end + 1 : size] == _HIGH[number:last]
