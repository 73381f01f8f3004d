"""Columns of offset deltas agree with varints that are written one by one."""

from __future__ import annotations

import pytest

from kwire.records.offset_deltas import TWO_BYTES, are_consecutive, same_width, width_of
from kwire.varint import write_varint

_COUNT = 20
_SIZE = 5


def _records(number: int) -> bytearray:
    """Records of ``_SIZE`` bytes: a byte, the offset delta, zeros."""
    data = bytearray()
    for delta in range(number, number + _COUNT):
        data += (b"\7" + write_varint(delta)).ljust(_SIZE, b"\0")
    return data


@pytest.mark.parametrize("number", [0, 1, 44, 64, 1000, TWO_BYTES - _COUNT])
def test_deltas_written_as_varints_are_consecutive_until_one_differs(number: int) -> None:
    data = _records(number)
    assert are_consecutive(data, 1, _SIZE, number, _COUNT)
    for at in range(_COUNT):
        for byte in range(width_of(number)):
            wrong = bytearray(data)
            wrong[at * _SIZE + 1 + byte] ^= 2
            assert not are_consecutive(wrong, 1, _SIZE, number, _COUNT)
            assert are_consecutive(wrong, 1, _SIZE, number, at)


@pytest.mark.parametrize(("number", "width", "same"), [(0, 1, 64), (63, 1, 1), (64, 2, 8128)])
def test_width_is_that_of_the_varint(number: int, width: int, same: int) -> None:
    assert len(write_varint(number)) == width == width_of(number)
    assert same_width(number) == same
