"""Varints: the bytes Kafka's ByteUtils writes, every length, every way of being wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import DecodeError, EncodeError
from kwire.varint import (
    read_unsigned_varint,
    read_unsigned_varlong,
    read_varint,
    read_varlong,
    write_unsigned_varint,
    write_varint,
    write_varlong,
)

Reader = Callable[[bytes, int], tuple[int, int]]

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**28 - 1, "ffffff7f"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_unsigned_varint(value: int, data: str) -> None:
    assert write_unsigned_varint(value).hex() == data
    assert read_unsigned_varint(bytes.fromhex(data)) == (value, len(data) // 2)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zigzag_varint(value: int, data: str) -> None:
    assert write_varint(value).hex() == write_varlong(value).hex() == data
    assert (
        read_varint(bytes.fromhex(data))
        == read_varlong(bytes.fromhex(data))
        == (value, len(data) // 2)
    )


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
        (1 << 32, "8080808020"),
    ],
)
def test_zigzag_varlong(value: int, data: str) -> None:
    assert write_varlong(value).hex() == data
    assert read_varlong(bytes.fromhex(data)) == (value, len(data) // 2)
    assert read_unsigned_varlong(bytes.fromhex(data)) == (value << 1 ^ value >> 63, len(data) // 2)


@given(INT32, st.binary(max_size=4), st.binary(max_size=4))
def test_round_trip_of_32_bits(value: int, before: bytes, after: bytes) -> None:
    data = before + write_varint(value) + after
    assert read_varint(data, len(before)) == (value, len(data) - len(after))
    unsigned = value & 0xFFFFFFFF
    assert read_unsigned_varint(write_unsigned_varint(unsigned)) == (
        unsigned,
        len(write_unsigned_varint(unsigned)),
    )


@given(INT64)
def test_round_trip_of_64_bits(value: int) -> None:
    data = write_varlong(value)
    assert read_varlong(data) == (value, len(data))
    assert len(data) <= 10


def test_padding_is_read() -> None:
    assert read_unsigned_varint(b"\x81\x80\x80\x80\x00") == (1, 5)
    assert read_varlong(b"\x82" + b"\x80" * 8 + b"\x00") == (1, 10)


@pytest.mark.parametrize("read", [read_unsigned_varint, read_varint])
@pytest.mark.parametrize("last", [0x10, 0x1F, 0x7F])
def test_surplus_bits_of_the_fifth_byte_are_refused(read: Reader, last: int) -> None:
    with pytest.raises(DecodeError) as caught:
        read(b"\x00\xff\xff\xff\xff" + bytes([last]), 1)
    assert (caught.value.rule, caught.value.offset) == ("varint-surplus", 1)


@pytest.mark.parametrize("read", [read_unsigned_varlong, read_varlong])
@pytest.mark.parametrize("last", [0x02, 0x03, 0x7F])
def test_surplus_bits_of_the_tenth_byte_are_refused(read: Reader, last: int) -> None:
    with pytest.raises(DecodeError) as caught:
        read(b"\xff" * 9 + bytes([last]), 0)
    assert caught.value.rule == "varint-surplus"


@pytest.mark.parametrize(
    ("read", "longest"),
    [(read_unsigned_varint, 5), (read_varint, 5), (read_varlong, 10), (read_unsigned_varlong, 10)],
)
def test_one_byte_too_many_and_every_cut(read: Reader, longest: int) -> None:
    for size in (longest + 1, 200_000):
        with pytest.raises(DecodeError) as caught:
            read(b"\x80" * size + b"\x00", 0)
        assert caught.value.rule == "varint-length"
    for size in range(longest):
        with pytest.raises(DecodeError) as caught:
            read(b"\x80" * size, 0)
        assert caught.value.rule == "truncated"


def test_values_that_do_not_fit_are_not_written() -> None:
    for value in (-1, 1 << 32):
        with pytest.raises(EncodeError, match="unsigned"):
            write_unsigned_varint(value)
    for value in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(EncodeError, match="32 bits"):
            write_varint(value)
    for value in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(EncodeError, match="64 bits"):
            write_varlong(value)
