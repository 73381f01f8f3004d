"""The writer's own view of its log: where the log starts inside a segment, and what other programs
do to the files.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.metadata.local_log import LocalLog, LogSettings
from gateway.log.reading import own_log
from gateway.log.reading.log_view import LogView
from gateway.log.reading.own_log import OwnLog
from gateway.log.segments.segment import ReadableSegment
from gateway.log.segments.segment_slice import SegmentSlice
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import batch, snapshot_bytes

_SETTINGS = LogSettings(index_interval_bytes=100, retention_bytes=1, retention_ms=-1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LocalLog]:
    log = LocalLog.open(tmp_path, _SETTINGS)
    yield log
    log.close()


def append(log: LocalLog, *times: int) -> None:
    """A batch of one record for each time, ms."""
    for time in times:
        log.append(batch(log.end_offset, 1, 1, timestamps=(time,)).data)


def start_at(log: LocalLog, offset: int) -> None:
    """Let the log begin at a snapshot, inside its only segment."""
    log.set_high_watermark(log.end_offset)
    for end in (offset, log.end_offset):
        writer = log.new_snapshot(SnapshotId(end, 1))
        writer.write(0, snapshot_bytes(1, ()))
        writer.freeze()
    (log.directory / SnapshotId(log.end_offset, 1).file_name).unlink()
    log.log.start_at(offset, 1)


def latest(view: LogView) -> int:
    return max(piece.max_timestamp for piece in view.slices)


def test_largest_time_is_that_of_a_batch_that_is_served(log: LocalLog) -> None:
    """The clock was set back, and the log start has passed the batches of before."""
    append(log, 10, 90, 80, 30, 20, 40)
    own = OwnLog(log.log, snapshot_prefix=False)
    assert latest(own.view) == 90
    start_at(log, 3)
    own.refresh()
    assert (own.view.start_offset, latest(own.view)) == (3, 40)
    append(log, 35)
    own.refresh()
    assert latest(own.view) == 40
    append(log, 60)
    own.refresh()
    assert latest(own.view) == 60
    log.set_high_watermark(3)
    append(log, 95)
    own.refresh()
    assert latest(own.view) == 95


def test_largest_time_after_a_truncation_is_of_what_is_left(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path, _SETTINGS)
    append(log, 90, 10, 20)
    log.set_high_watermark(3)
    log.log.start_at(1, 1)
    append(log, 70, 30)
    own = OwnLog(log.log, snapshot_prefix=False)
    assert latest(own.view) == 70
    log.truncate_to(3)
    own.refresh()
    assert latest(own.view) == 20
    append(log, 25)
    own.refresh()
    assert latest(own.view) == 25
    log.close()


def test_batch_that_holds_the_log_start_is_the_first(log: LocalLog) -> None:
    log.append(batch(0, 5, 1).data)
    log.append(batch(5, 5, 1).data)
    start_at(log, 7)
    own = OwnLog(log.log, snapshot_prefix=False)
    (piece,) = own.view.slices
    assert (piece.first_offset, piece.start_offset, own.view.start_offset) == (5, 7, 7)
    assert [slot.offset for slot in piece.slots()] == [5]


def test_view_of_before_stays_as_it_was(log: LocalLog) -> None:
    append(log, *range(20))
    own = OwnLog(log.log, snapshot_prefix=False)
    before = own.view
    log.set_high_watermark(10)
    log.truncate_to(10)
    own.refresh()
    append(log, 100, 101)
    own.refresh()
    assert (before.end_offset, own.view.end_offset) == (20, 12)
    found = before.slices[0].slot_of(9)
    assert found is not None and found == own.view.slices[0].slot_of(9)


def test_damage_of_a_batch_is_found_where_it_is_suspected(log: LocalLog) -> None:
    append(log, *range(20))
    log.flush()
    own = OwnLog(log.log, snapshot_prefix=False)
    slot = own.view.slices[0].slot_of(4)
    assert slot is not None and own.fault(20) is None
    with (log.directory / f"{0:020d}.log").open("r+b") as file:
        file.seek(slot.position + slot.size - 1)
        file.write(b"?")
    assert own.fault(20) is None, "the end alone is compared"
    problem = own.fault(20, [4])
    assert problem is not None and "wrong CRC" in problem.reason
    assert problem.position == slot.position


def test_file_that_was_cut_is_named_with_its_size(log: LocalLog) -> None:
    append(log, *range(20))
    log.flush()
    own = OwnLog(log.log, snapshot_prefix=False)
    path = log.directory / f"{0:020d}.log"
    written = path.stat().st_size
    os.truncate(path, 99)
    problem = own.fault(20)
    assert problem is not None
    assert str(problem) == f"{path} at byte 99: has 99 bytes, and {written} were written"


def test_append_makes_nothing_anew_of_closed_segments(log: LocalLog) -> None:
    for _ in range(3):
        append(log, 10)
        log.log.roll()
    append(log, 10)
    own = OwnLog(log.log, snapshot_prefix=False)
    before = own.view
    append(log, 20)
    own.refresh()
    assert len(own.view.slices) == 4 and own.view.end_offset == before.end_offset + 1
    assert all(map(operator.is_, own.view.slices[:3], before.slices[:3]))
    assert own.view.slices[3] is not before.slices[3]


def test_views_follow_closed_segments_that_change(log: LocalLog) -> None:
    for _ in range(3):
        append(log, 10)
        log.log.roll()
    append(log, 10)
    own = OwnLog(log.log, snapshot_prefix=False)
    log.log.delete_closed([0])
    log.log.start_at(1, 1)
    own.refresh()
    assert [piece.start_offset for piece in own.view.slices] == [1, 2, 3]
    log.log.truncate_to(2, high_watermark=0)
    append(log, 30)
    log.log.roll()
    append(log, 40)
    own.refresh()
    assert [(piece.start_offset, piece.max_timestamp) for piece in own.view.slices] == [
        (1, 10),
        (2, 30),
        (3, 40),
    ]


def test_view_is_made_when_it_is_read_and_once(
    log: LocalLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = OwnLog(log.log, snapshot_prefix=False)
    made: list[int] = []
    whole = own_log._whole

    def counted(segment: ReadableSegment) -> SegmentSlice:
        made.append(segment.end_offset)
        return whole(segment)

    monkeypatch.setattr(own_log, "_whole", counted)
    for time in range(5):
        append(log, time)
        own.refresh()
        moment = own.moment
        assert (moment.start_offset, moment.end_offset) == (0, time + 1)
    assert made == [], "nobody has read"
    append(log, 5)
    own.refresh()
    assert moment.view.end_offset == 5, "the log as it was"
    assert moment.view is moment.view and made == [5]
