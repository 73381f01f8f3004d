"""Look-ups in one file, by the writer's own index and by that of a reader, agree with a walk over
all batches.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.log.segments.batch_check import Batch
from gateway.log.segments.batch_index import BatchIndex
from gateway.log.segments.segment_index import SegmentIndex
from gateway.log.segments.segment_scan import scan_segment
from gateway.log.segments.segment_slice import SegmentSlice, Slot
from kwire.metadata_log.open_file import OpenFile
from tests.gateway.log.kafka_files import WrittenBatch, batch

_INTERVAL = 300


def by_reader(path: Path) -> SegmentSlice:
    """The file as another process's reader has it."""
    index = BatchIndex(OpenFile(str(path)), 0)
    index.scan(1 << 30)
    whole = index.slice()
    assert whole is not None
    return whole


def by_writer(path: Path) -> SegmentSlice:
    """The same file with the index of its writer."""
    scan = scan_segment(path.parent, 0, _INTERVAL, 0)
    return replace(by_reader(path), index=scan.index)


def written(path: Path, counts: list[int], sizes: list[int], clock: list[int]) -> Path:
    made: list[WrittenBatch] = []
    for n, count in enumerate(counts):
        made.append(
            batch(
                made[-1].next_offset if made else 0,
                count,
                size=sizes[n % len(sizes)],
                timestamps=(clock[n % len(clock)],) * count,
            )
        )
    path.write_bytes(b"".join(one.data for one in made))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(
        tmp_path / "00000000000000000000.log",
        [1, 3, 1, 40, 2, 1, 1, 5] * 6,
        [10, 900, 30],
        [1000, 2000, 1500],
    )


def all_slots(piece: SegmentSlice) -> list[Slot]:
    slots = list(piece.slots())
    assert [slot.position for slot in slots[1:]] == [s.position + s.size for s in slots[:-1]]
    assert slots[-1].position + slots[-1].size == piece.end
    return slots


@pytest.mark.parametrize("opened", [by_reader, by_writer])
def test_every_offset_is_found_in_its_batch(path: Path, opened: object) -> None:
    piece = by_reader(path) if opened is by_reader else by_writer(path)
    slots = all_slots(piece)
    for offset in range(piece.end_offset):
        assert piece.slot_of(offset) == next(slot for slot in slots if slot.next_offset > offset)
    assert piece.slot_of(piece.end_offset) is None


@pytest.mark.parametrize("opened", [by_reader, by_writer])
def test_every_position_has_the_boundary_before_it(path: Path, opened: object) -> None:
    piece = by_reader(path) if opened is by_reader else by_writer(path)
    ends = [0, *(slot.position + slot.size for slot in all_slots(piece))]
    for limit in range(0, piece.end + 100, 7):
        assert piece.boundary(limit) == max(end for end in ends if end <= limit)


@pytest.mark.parametrize("opened", [by_reader, by_writer])
def test_cut_at_every_offset_ends_with_the_last_whole_batch(path: Path, opened: object) -> None:
    piece = by_reader(path) if opened is by_reader else by_writer(path)
    slots = all_slots(piece)
    for offset in range(piece.end_offset + 1):
        cut, whole = piece.up_to(offset), [slot for slot in slots if slot.next_offset <= offset]
        if not whole:
            assert cut is None
            continue
        assert cut is not None
        assert (cut.end_offset, cut.max_timestamp) == (
            whole[-1].next_offset,
            max(slot.max_timestamp for slot in whole),
        )
        assert all_slots(cut) == whole


@given(clock=st.lists(st.integers(0, 50), min_size=1, max_size=40), wanted=st.integers(0, 51))
def test_first_batch_since_a_time_is_found_whatever_the_clock_did(
    tmp_path_factory: pytest.TempPathFactory, clock: list[int], wanted: int
) -> None:
    path = tmp_path_factory.mktemp("times") / "00000000000000000000.log"
    written(path, [1] * 40, [20], clock)
    for piece in (by_reader(path), by_writer(path)):
        since = [slot for slot in all_slots(piece) if slot.max_timestamp >= wanted]
        assert next(piece.slots_since(wanted), None) == next(iter(since), None)
        assert piece.max_timestamp == max(slot.max_timestamp for slot in piece.slots())


@pytest.mark.parametrize("opened", [by_reader, by_writer])
def test_file_that_was_cut_has_what_is_left(path: Path, opened: object) -> None:
    piece = by_reader(path) if opened is by_reader else by_writer(path)
    slots = all_slots(piece)
    third = slots[2]
    os.truncate(path, third.position + 30)
    assert piece.slot_of(third.offset) is None
    assert list(piece.slots()) == slots[:2]
    assert piece.slot_of(piece.end_offset - 1) is None
    os.truncate(path, 0)
    assert (piece.slot_of(0), list(piece.slots())) == (None, [])


def test_batch_that_was_added_last_is_found_by_its_header_alone(path: Path) -> None:
    piece = by_writer(path)
    index, last = piece.index, all_slots(piece)[-1]
    assert isinstance(index, SegmentIndex)
    assert index.position_before(last.offset) < last.position, "it has no entry"
    added = batch(piece.end_offset, 2)
    with path.open("ab") as file:
        file.write(added.data)
    described = Batch(0, len(added.data), piece.end_offset, piece.end_offset + 1, 1, 1000)
    index.add([described], piece.end)
    for offset in (piece.end_offset, piece.end_offset + 1):
        assert index.position_near(offset) == piece.end
    grown = replace(piece, end=piece.end + described.size, end_offset=piece.end_offset + 2)
    found = grown.slot_of(piece.end_offset + 1)
    assert found is not None and (found.position, found.size) == (piece.end, described.size)
    assert piece.slot_of(last.offset) == last, "as before"
