from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from gateway.log.segments.batch_check import Batch
from gateway.log.segments.segment_index import SegmentIndex

_BASE = 1000
#: (bytes, offsets, timestamp) of each batch.
_batches = st.lists(
    st.tuples(st.integers(61, 900), st.integers(1, 5), st.integers(-1, 50)), max_size=40
)


def laid_out(shapes: list[tuple[int, int, int]]) -> list[Batch]:
    batches, position, offset = [], 0, _BASE
    for size, count, timestamp in shapes:
        batches.append(Batch(position, size, offset, offset + count - 1, 1, timestamp))
        position, offset = position + size, offset + count
    return batches


def as_kafka_does(batches: list[Batch], interval: int) -> tuple[bytes, bytes]:
    """``LogSegment.append`` told again: bytes since the last entry are counted before each
    batch.
    """
    offsets, times, since, latest, last_time = b"", b"", 0, (-1, _BASE), -1
    for batch in batches:
        if batch.max_timestamp > latest[0]:
            latest = (batch.max_timestamp, batch.last_offset)
        if since > interval:
            offsets += struct.pack(">ii", batch.last_offset - _BASE, batch.position)
            if latest[0] > last_time:
                times += struct.pack(">qi", latest[0], latest[1] - _BASE)
                last_time = latest[0]
            since = 0
        since += batch.size
    return offsets, times


@given(_batches, st.integers(0, 3000), st.integers(1, 7))
def test_entries_are_those_of_kafka_however_the_batches_are_added(
    shapes: list[tuple[int, int, int]], interval: int, piece: int
) -> None:
    batches = laid_out(shapes)
    index = SegmentIndex(_BASE, interval)
    for start in range(0, len(batches), piece):
        told = batches[start : start + piece]
        shift = told[0].position
        index.add([batch._replace(position=batch.position - shift) for batch in told], shift)
    assert (index.offset_bytes(), index.time_bytes()) == as_kafka_does(batches, interval)
    assert index.counts == (len(index.offset_bytes()) // 8, len(index.time_bytes()) // 12)
    assert index.first_timestamp == (batches[0].max_timestamp if batches else None)


@given(_batches, st.integers(0, 3000), st.integers(0, 200), st.booleans())
def test_rewinding_and_adding_again_gives_the_same_entries(
    shapes: list[tuple[int, int, int]], interval: int, kept_offsets: int, completed: bool
) -> None:
    batches = laid_out(shapes)
    index = SegmentIndex(_BASE, interval)
    index.add(batches)
    if completed:
        index.add_latest_time()
    offset = _BASE + kept_offsets
    kept = [batch for batch in batches if batch.last_offset < offset]
    assert index.position_before(offset) in {0, *(batch.position for batch in kept)}
    index, position = index.rewound(offset)
    index.add([batch for batch in kept if batch.position >= position])
    assert (index.offset_bytes(), index.time_bytes()) == as_kafka_does(kept, interval)
    assert index.first_timestamp == (kept[0].max_timestamp if kept else None)
    rest = [batch._replace(max_timestamp=batch.max_timestamp + 3) for batch in batches[len(kept) :]]
    index.add(rest)
    assert (index.offset_bytes(), index.time_bytes()) == as_kafka_does(kept + rest, interval)


def test_the_largest_timestamp_is_added_once_at_the_end() -> None:
    index = SegmentIndex(_BASE, 100)
    index.add_latest_time()
    assert index.time_bytes() == b"", "no batch, no time"
    index.add(laid_out([(80, 1, 7), (80, 2, 9), (80, 1, 8)]))
    index.add_latest_time()
    index.add_latest_time()
    assert index.time_bytes() == struct.pack(">qi", 9, 2)
    assert index.time_bytes(1) == b""
