"""Pieces of the log: the same changes however the bytes are cut, and no more than a piece holds."""

from __future__ import annotations

import gc
from typing import Any

import crc32c
import pytest

from gateway.views import cursor, fold
from gateway.views.cursor import Piece, ViewCursor
from gateway.views.fold import Snapshot, ViewOverflow
from kwire.cluster import view_offsets as offsets
from kwire.message import Message
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.records import (
    Compression,
    Record,
    decode_metadata_record,
    encode_batch,
    encode_metadata_record,
)
from tests.gateway.sources.metadata_files import batch, control, topic


def drained(one: ViewCursor, *batches: bytes) -> list[Piece]:
    one.feed(b"".join(batches))
    found = []
    while not one.is_hungry:
        found.append(one.step())
    return found


def told(pieces: list[Piece]) -> list[str]:
    return [change.kind.name(change.after)[0] for piece in pieces for change in piece.changes]


def test_pieces_are_adjacent_and_have_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "PIECE_CHANGES", 3)
    one = ViewCursor(0, 0)
    pieces = drained(one, batch(0, *map(topic, range(8))), batch(8, topic(8), topic(9)))
    assert told(pieces) == [f"t{number}" for number in range(10)]
    assert [len(piece.changes) for piece in pieces] == [3, 3, 3, 1]
    assert [piece.first for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert (pieces[0].first, pieces[-1].end) == (0, offsets.at(10))
    assert (one.next_offset, one.epoch) == (10, 1)


def test_batch_that_was_taken_before_or_begins_below_is_taken_once() -> None:
    one = ViewCursor(0, 0)
    first = batch(0, topic(0), topic(1))
    assert told(drained(one, first)) == ["t0", "t1"]
    assert told(drained(one, first, batch(2, topic(2)))) == ["t2"]
    middle = ViewCursor(1, 0)
    assert told(drained(middle, first)) == ["t1"]


def test_batch_whose_records_cannot_be_read_is_passed_over() -> None:
    damaged = bytearray(batch(1, topic(1)))
    damaged[-1] ^= 1
    pieces = drained(ViewCursor(0, 0), batch(0, topic(0)), bytes(damaged), batch(2, topic(2)))
    assert told(pieces) == ["t0", "t2"]
    assert pieces[-1].end == offsets.at(3)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_batch_of_many_records_is_read_in_slices(
    compression: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step folds a few slices, and no more than one of them is in memory after it."""
    folded = 0

    def count(value: bytes) -> Any:
        nonlocal folded
        folded += 1
        return decode_metadata_record(value)

    monkeypatch.setattr(fold, "decode_metadata_record", count)
    records = 60 * cursor.SLICE_RECORDS
    messages = [topic(0), *[NoOpRecord()] * (records - 2), topic(1)]
    one, found, most, kept = ViewCursor(0, 0), list[Piece](), 0, 0
    encoded = [
        Record(offset=number, timestamp=1000, value=encode_metadata_record(message, 0))
        for number, message in enumerate(messages)
    ]
    one.feed(encode_batch(encoded, partition_leader_epoch=1, compression=compression))
    del encoded
    while not one.is_hungry:
        folded = 0
        found.append(one.step())
        most = max(most, folded)
        kept = max(kept, sum(isinstance(thing, Record) for thing in gc.get_objects()))
    assert told(found) == ["t0", "t1"]
    assert [piece.first for piece in found[1:]] == [piece.end for piece in found[:-1]]
    assert (found[-1].end, one.next_offset) == (offsets.at(records), records)
    assert most <= 10 * cursor.SLICE_RECORDS and kept <= 2 * cursor.SLICE_RECORDS


def test_long_batch_with_a_fault_at_its_end_is_passed_over_whole() -> None:
    records = [
        Record(offset=number, value=encode_metadata_record(topic(number), 0))
        for number in range(2 * cursor.SLICE_RECORDS)
    ]
    damaged = bytearray(encode_batch(records, partition_leader_epoch=1))
    damaged[-1] = 1  # a header that is not there
    damaged[17:21] = crc32c.crc32c(bytes(damaged[21:])).to_bytes(4)
    assert told(drained(ViewCursor(0, 0), bytes(damaged), batch(len(records), topic(1)))) == ["t1"]


def test_cursor_has_caught_up_when_it_was_at_the_end_of_the_log_once() -> None:
    one = ViewCursor(0, 0)
    one.feed(batch(0, topic(0), topic(1)))
    one.note_end(0)
    assert not one.has_caught_up, "it was fed records"
    one.step()
    one.note_end(3)
    assert not one.has_caught_up
    one.note_end(2)
    assert one.has_caught_up
    one.note_end(9)
    assert one.has_caught_up


def snapshot(*messages: Message) -> list[bytes]:
    """The batches of a snapshot of offsets 10 and up, as a log has them below its start."""
    end = 11 + len(messages)
    return [
        control(10, "SNAPSHOT_HEADER", SnapshotHeaderRecord(last_contained_log_timestamp=900)),
        *([batch(11, *messages)] if messages else []),
        control(end, "SNAPSHOT_FOOTER", SnapshotFooterRecord()),
    ]


def test_snapshot_gives_its_state_when_it_ends() -> None:
    one = ViewCursor(10, 14)
    batches = snapshot(topic(2), topic(1))
    (before,) = drained(one, *batches[:2])
    assert before == Piece(offsets.of_snapshot(14), offsets.of_snapshot(14), [])
    state, _ = drained(one, batches[2])
    assert told([state]) == ["t1", "t2"], "in the order of names"
    assert (state.first, state.end) == (offsets.of_snapshot(14), offsets.at(14))
    assert state.complete == Snapshot(14, 1, offsets.of_snapshot(14), 2, 900)


def test_piece_ends_with_the_snapshot() -> None:
    one = ViewCursor(10, 14)
    pieces = drained(one, *snapshot(topic(2), topic(1)), batch(14, topic(3)), batch(15, topic(4)))
    assert [(told([piece]), piece.complete is not None) for piece in pieces] == [
        (["t1", "t2"], True),
        (["t3", "t4"], False),
    ]
    assert [pieces[0].end, pieces[1].first] == 2 * [offsets.at(14)]


def test_snapshot_of_nothing_is_complete_at_once() -> None:
    piece, _ = drained(ViewCursor(10, 12), *snapshot())
    assert piece.changes == [] and piece.complete is not None
    assert (piece.end, piece.complete.entities) == (offsets.at(12), 0)


def test_snapshot_inside_a_log_is_passed_over() -> None:
    pieces = drained(ViewCursor(0, 0), batch(0, topic(0)), *snapshot(topic(1)))
    assert [change.op for piece in pieces for change in piece.changes] == ["c", "c"]


def test_snapshot_with_too_many_entities_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "CHANGES_MAX", 1)
    with pytest.raises(ViewOverflow, match="14"):
        drained(ViewCursor(10, 14), *snapshot(topic(2), topic(1)))
