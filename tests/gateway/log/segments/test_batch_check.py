from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.segments.batch_check import Batch, Tail, check_batches, check_file
from tests.gateway.log.kafka_files import batch

_ANY = Tail(-1, -1)


class Bytes:
    """A file in memory that counts what is read of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes_read = 0

    def read(self, position: int, length: int) -> bytes:
        piece = self.data[position : position + length]
        self.bytes_read += len(piece)
        return piece


def test_good_batches_are_returned_with_the_tail_behind_them() -> None:
    one, two = batch(5, 3, 2, timestamps=(30, 10, 20)), batch(8, 1, 4)
    checked = check_batches(one.data + two.data, Tail(5, 2), 100)
    size = len(one.data)
    assert checked.batches == [
        Batch(100, size, 5, 7, 2, 30),
        Batch(100 + size, len(two.data), 8, 8, 4, two.timestamps[0]),
    ]
    assert (checked.tail, checked.fault, checked.end) == (
        Tail(9, 4),
        None,
        100 + size + len(two.data),
    )


@pytest.mark.parametrize("left", [0, 1, 11, 12, 60, 61, 80])
def test_an_unfinished_batch_is_no_fault(left: int) -> None:
    one, two = batch(0, 2), batch(2, 2)
    checked = check_batches(one.data + two.data[:left], Tail(0, 0))
    assert (len(checked.batches), checked.fault, checked.tail.next_offset) == (1, None, 2)


def test_an_offset_delta_that_goes_back_is_refused() -> None:
    import crc32c

    data = bytearray(batch(0, 2).data)
    struct.pack_into(">i", data, 23, -1)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    fault = check_batches(data, Tail(0, 0)).fault
    assert fault is not None
    assert fault.rule == "last-offset-delta"


@given(st.binary(max_size=300), st.integers(0, 200))
def test_any_bytes_are_checked_without_an_error(data: bytes, position: int) -> None:
    good = batch(0, 2).data
    checked = check_batches(good + data, Tail(0, 0))
    assert checked.batches[0].size == len(good)
    mutated = bytearray(good)
    mutated[position % len(good)] ^= 1 + len(data) % 255
    check_batches(bytes(mutated) + data, _ANY)


@given(st.lists(st.integers(1, 400_000), min_size=1, max_size=6), st.integers(0, 200))
def test_a_file_is_checked_as_one_piece_would_be(sizes: list[int], cut: int) -> None:
    """Also with batches larger than what is read at once, of which there are few enough to be read
    twice.
    """
    data, offset = b"", 0
    for number, size in enumerate(sizes):
        one = batch(offset, 1, size=size * (10 if number == 2 else 1))
        data, offset = data + one.data, one.next_offset
    data = data[: len(data) - cut]
    whole, file = check_batches(data, Tail(0, 0)), Bytes(data)
    parts = list(check_file(file, 0, len(data), Tail(0, 0)))
    assert [one for part in parts for one in part.batches] == whole.batches
    assert bool(parts) == bool(data) and all(part.fault is None for part in parts)
    assert [part.tail for part in parts if part.batches][-1:] == (
        [whole.tail] if whole.batches else []
    )
    assert file.bytes_read <= 3 * len(data) + 1024


def test_a_fault_in_a_file_names_the_place_in_the_file() -> None:
    good = b"".join(batch(offset, 1, size=70_000).data for offset in range(20))
    data = bytearray(good + batch(20).data)
    data[-1] ^= 1
    *_, last = check_file(Bytes(bytes(data)), 0, len(data), Tail(0, 0))
    assert last.fault is not None
    assert last.fault.offset == len(good)
    assert last.end == len(good)


def test_a_batch_larger_than_any_node_writes_is_damage_and_not_read_whole() -> None:
    """A header in a sparse file can name 2 GiB."""

    class Sparse:
        largest = 0

        def read(self, position: int, length: int) -> bytes:
            self.largest = max(self.largest, length)
            return (header + bytes(length))[position : position + length]

    header = struct.pack(">qiibI", 0, (1 << 31) - 1, 0, 2, 0)
    file = Sparse()
    [checked] = check_file(file, 0, 1 << 40, Tail(0, 0))
    assert not checked.batches and checked.fault is not None
    assert checked.fault.rule == "batch-length" and "more than" in str(checked.fault)
    assert file.largest <= 1 << 20
