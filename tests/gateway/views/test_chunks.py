"""Kept batches: collected over adjacent chunks, dropped by size and by range."""

from __future__ import annotations

from gateway.views.chunks import Chunk, Chunks, Collected
from gateway.views.encode import EncodedBatch


def chunk(first: int, end: int, *last_offsets: int, view: str = "topics", size: int = 100) -> Chunk:
    batches = [EncodedBatch(last, b"%d" % last + bytes(size)) for last in last_offsets]
    return Chunk(first, end, {view: batches})


def told(found: Collected) -> tuple[list[int], int, bool]:
    """The last offset of each batch, the end, and whether there was no space."""
    return [int(one.rstrip(b"\0")) for one in found.batches], found.end, found.is_full


def test_batches_of_adjacent_chunks_are_collected() -> None:
    chunks = Chunks(1 << 20)
    for one in (chunk(0, 10, 3, 7), chunk(10, 20), chunk(20, 30, 25, size=70_000)):
        chunks.add(one)
    assert told(chunks.collect("topics", 0, 1 << 20)) == ([3, 7, 25], 30, False)
    assert told(chunks.collect("topics", 4, 1 << 20)) == ([7, 25], 30, False)
    assert told(chunks.collect("topics", 26, 1 << 20)) == ([], 30, False)
    assert told(chunks.collect("topics", 30, 1 << 20)) == ([], 30, False)


def test_at_least_one_batch_and_then_what_fits() -> None:
    chunks = Chunks(1 << 20)
    chunks.add(chunk(0, 10, 3, 7, 9))
    assert told(chunks.collect("topics", 0, 1)) == ([3], 4, True)
    assert told(chunks.collect("topics", 4, 220)) == ([7, 9], 10, False)


def test_nothing_beyond_a_gap_or_of_another_view() -> None:
    chunks = Chunks(1 << 20)
    chunks.add(chunk(0, 10, 3))
    chunks.add(chunk(15, 20, 17))
    chunks.add(chunk(20, 30, 25, view="acls"))
    assert told(chunks.collect("topics", 0, 1 << 20)) == ([3], 10, False)
    assert told(chunks.collect("topics", 12, 1 << 20)) == ([], 12, False)
    assert told(chunks.collect("topics", 15, 1 << 20)) == ([17], 20, False)
    assert told(chunks.collect("acls", 0, 1 << 20)) == ([], 0, False)


def test_newer_chunk_replaces_those_that_it_overlaps() -> None:
    chunks = Chunks(1 << 20)
    chunks.add(chunk(0, 10, 3))
    chunks.add(chunk(5, 20, 17))
    assert told(chunks.collect("topics", 5, 1 << 20)) == ([17], 20, False)
    assert told(chunks.collect("topics", 0, 1 << 20)) == ([], 0, False)


def test_least_recently_used_chunk_goes_first() -> None:
    chunks = Chunks(230_000)
    for first in (0, 10, 20):
        chunks.add(chunk(first, first + 10, first + 5, size=70_000))
        chunks.collect("topics", first, 1)
    chunks.collect("topics", 0, 1)
    chunks.add(chunk(30, 40, 35, size=70_000))
    assert chunks.size <= 230_000
    assert [bool(chunks.collect("topics", at, 1).batches) for at in (0, 10, 20, 30)] == [
        True, False, True, True
    ]  # fmt: skip


def test_small_chunks_are_joined() -> None:
    chunks = Chunks(3000)
    for at in range(8):
        chunks.add(chunk(at, at + 1, at, size=10))
    assert told(chunks.collect("topics", 0, 1 << 20))[0] == list(range(8))


def test_empty_range_is_not_kept() -> None:
    chunks = Chunks(1 << 20)
    chunks.add(chunk(5, 5))
    assert chunks.size == 0


def test_what_is_below_a_start_is_dropped() -> None:
    chunks = Chunks(1 << 20)
    chunks.add(chunk(0, 10, 3, size=70_000))
    chunks.add(chunk(10, 20, 17, size=70_000))
    chunks.keep(5)
    assert told(chunks.collect("topics", 0, 1 << 20)) == ([], 0, False)
    assert told(chunks.collect("topics", 10, 1 << 20)) == ([17], 20, False)
    chunks.clear()
    assert chunks.size == 0
