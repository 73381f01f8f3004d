"""The splitter gives the same frames however the bytes arrive, and buffers no more than those."""

from __future__ import annotations

import itertools
import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.errors import DecodeError
from kwire.frame import FrameSplitter, frame


def split(pieces: list[bytes], limit: int = 1000) -> list[bytes]:
    splitter, frames = FrameSplitter(limit), []
    for piece in pieces:
        splitter.feed(piece)
        while (found := splitter.next_frame()) is not None:
            frames.append(found)
    return frames


@given(
    st.lists(st.binary(min_size=1, max_size=50), max_size=8),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_frames_do_not_depend_on_how_the_bytes_arrive(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(body) for body in bodies)
    marks = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert split([stream[a:b] for a, b in itertools.pairwise(marks)]) == bodies


def test_one_frame_cut_at_every_byte() -> None:
    stream = frame(b"first", b"half") + frame(b"second")
    for cut in range(len(stream) + 1):
        assert split([stream[:cut], stream[cut:]]) == [b"firsthalf", b"second"]
    assert split([bytes([byte]) for byte in stream]) == [b"firsthalf", b"second"]


def test_missing_returns_the_number_of_bytes_to_wait_for() -> None:
    splitter = FrameSplitter(100)
    assert splitter.missing() == 4
    splitter.feed(b"\0\0")
    assert splitter.missing() == 2
    splitter.feed(b"\0\x0aabc")
    assert (splitter.missing(), splitter.buffered) == (7, 7)
    splitter.feed(b"defghij")
    assert (splitter.missing(), splitter.next_frame(), splitter.buffered) == (0, b"abcdefghij", 0)


@pytest.mark.parametrize("size", [0, -1, -(2**31), 101, 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_impossible_size_is_refused_as_soon_as_it_is_read(size: int) -> None:
    splitter = FrameSplitter(100)
    splitter.feed(struct.pack(">i", size))
    with pytest.raises(DecodeError, match=str(size)):
        splitter.next_frame()
    with pytest.raises(DecodeError, match=str(size)):
        splitter.missing()


def test_the_limit_itself_is_allowed_and_may_be_raised_between_frames() -> None:
    splitter = FrameSplitter(5)
    splitter.feed(frame(b"12345") + frame(b"123456"))
    assert splitter.next_frame() == b"12345"
    splitter.limit = 6
    assert splitter.next_frame() == b"123456"


def test_a_claimed_size_allocates_nothing() -> None:
    splitter = FrameSplitter(2**30)
    tracemalloc.start()
    splitter.feed(struct.pack(">i", 2**30))
    assert splitter.next_frame() is None
    for _ in range(1000):
        splitter.feed(b"x")
    assert splitter.next_frame() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024


def test_frame_in_pieces_is_given_without_a_copy_and_the_frames_behind_it_are_cut_out() -> None:
    splitter = FrameSplitter(1000)
    stream = frame(b"a" * 500) + frame(b"b" * 10) + frame(b"c" * 500)
    splitter.feed(stream[:400])
    assert splitter.next_buffer() is None
    splitter.feed(stream[400:900])
    first = splitter.next_buffer()
    assert type(first) is bytearray and first == b"a" * 500
    second = splitter.next_buffer()
    assert type(second) is bytes and second == b"b" * 10
    assert splitter.next_buffer() is None and splitter.missing() == len(stream) - 900
    splitter.feed(stream[900:])
    assert splitter.next_frame() == b"c" * 500 and splitter.buffered == 0


def test_pieces_that_are_fed_before_the_frames_are_taken_stay_in_order() -> None:
    bodies = [bytes([number]) * (number % 7 + 1) for number in range(200)]
    stream, splitter = b"".join(map(frame, bodies)), FrameSplitter(100)
    for at in range(0, len(stream), 9):
        splitter.feed(stream[at : at + 9])
    assert splitter.buffered == len(stream) and splitter.missing() == 0
    assert [splitter.next_frame() for _ in bodies] == bodies
    assert splitter.next_frame() is None and splitter.buffered == 0


@pytest.mark.parametrize("left", [1, 3, 5, 50])
def test_large_piece_is_not_kept_for_the_bytes_that_are_left_of_it(left: int) -> None:
    splitter = FrameSplitter(1 << 20)
    tracemalloc.start()
    splitter.feed(frame(bytes(1000)) * 1000 + frame(bytes(100))[:left])
    while splitter.next_frame() is not None:
        pass
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert splitter.buffered == left and held < 64 * 1024
