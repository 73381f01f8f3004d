"""Appending to, rolling and truncating a local log, and its high watermark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.log.files.errors import (
    BelowHighWatermark,
)
from gateway.log.metadata.local_log import LocalLog, LogSettings
from kwire.errors import DecodeError
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.log.kafka_files import batch
from tests.gateway.log.local_log_files import (
    FIRST,
    fill,
    segments,
    small,
)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LocalLog]:
    log = LocalLog.open(tmp_path, LogSettings())
    yield log
    log.close()


# --- appending
# -------------------------------------------------------------------------------------------------


def test_a_new_log_is_empty_and_kafkas_files_are_there(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path / "a" / "b", LogSettings())
    assert (log.start_offset, log.end_offset, log.last_epoch, log.high_watermark) == (0, 0, 0, 0)
    assert log.latest_snapshot is None
    assert log.quorum_state is None
    assert log.meta_properties is None
    assert log.end_offset_for_epoch(0) == (-1, -1)
    assert sorted(path.name for path in log.directory.iterdir()) == [
        "00000000000000000000.index",
        FIRST,
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (
        log.directory / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {METADATA_TOPIC_ID}"
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n0\n"
    log.close()


def test_batches_are_kept_as_they_came(log: LocalLog) -> None:
    one, two, three = batch(0, 3, 1), batch(3, 1, 1, control=True), batch(4, 2, 5)
    assert log.append(one.data + two.data) == 4
    assert log.append(memoryview(three.data)) == 6
    assert log.append(b"") == 6
    assert (log.directory / FIRST).read_bytes() == one.data + two.data + three.data
    assert log.last_epoch == 5
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n5 4\n"


@pytest.mark.parametrize("left", [1, 12, 60, 61, 70])
def test_a_cut_last_batch_of_an_answer_is_left_out(log: LocalLog, left: int) -> None:
    one, two = batch(0, 2), batch(2, 2)
    assert log.append(one.data + two.data[:left]) == 2
    assert log.append(two.data) == 4
    assert (log.directory / FIRST).read_bytes() == one.data + two.data


@pytest.mark.parametrize(
    ("bad", "rule"),
    [
        (batch(3, 1, 3).data, "base-offset"),
        (batch(1, 1, 3).data, "base-offset"),
        (batch(2, 1, 2).data, "leader-epoch"),
        (batch(2, 1, 3).data[:-1] + b"!", "crc"),
        (batch(2, 1, 3).data[:16] + b"\1" + batch(2, 1, 3).data[17:], "batch-magic"),
        (batch(2, 1, 3).data[:8] + b"\0\0\0\x10" + batch(2, 1, 3).data[12:], "batch-length"),
        (batch(2, 1, 3).data[:8] + b"\xff\0\0\0" + batch(2, 1, 3).data[12:], "batch-length"),
    ],
)
def test_nothing_of_an_answer_with_a_bad_batch_is_written(
    log: LocalLog, bad: bytes, rule: str
) -> None:
    log.append(batch(0, 1, 3).data)
    good = batch(1, 1, 3).data
    with pytest.raises(DecodeError) as caught:
        log.append(good + bad)
    assert caught.value.rule == rule
    assert caught.value.offset == len(good)
    assert (log.end_offset, log.last_epoch) == (1, 3)
    assert (log.directory / FIRST).read_bytes() == batch(0, 1, 3).data


def test_every_flipped_bit_of_an_answer_is_refused_or_outside_the_crc(log: LocalLog) -> None:
    data = batch(0, 2, 1).data
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        if 12 <= position < 16:  # the leader epoch lies outside the CRC, as in Kafka
            continue
        if 8 <= position < 12:  # a length beyond the bytes is an unfinished batch
            with (
                pytest.raises(DecodeError)
                if position > 10 and flipped[position] < data[position]
                else _nothing()
            ):
                assert log.append(bytes(flipped)) == 0
            continue
        with pytest.raises(DecodeError):
            log.append(bytes(flipped))
    assert log.end_offset == 0


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


# --- rolling
# -------------------------------------------------------------------------------------------------


def test_segments_roll_by_size_within_one_answer(tmp_path: Path) -> None:
    log = small(tmp_path)
    batches = [batch(offset, 1, 1 + offset // 5) for offset in range(20)]
    log.append(b"".join(one.data for one in batches))
    assert segments(log) == [0, 5, 10, 15]
    for base in segments(log):
        assert (log.directory / f"{base:020d}.log").stat().st_size <= 400
    joined = b"".join((log.directory / f"{base:020d}.log").read_bytes() for base in segments(log))
    assert joined == b"".join(one.data for one in batches)
    log.close()


def test_a_batch_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 2)
    log.append(batch(2, 1, 1, size=1000).data)
    fill(log, 1)
    assert segments(log) == [0, 2, 3]
    log.close()


def test_segments_roll_by_the_timestamps_of_their_batches(tmp_path: Path) -> None:
    log = LocalLog.open(tmp_path, LogSettings(segment_ms=1000))
    for offset, timestamp in enumerate((5000, 5999, 6000, 6001, 6500, 7002)):
        log.append(batch(offset, 1, timestamps=(timestamp,)).data)
    assert segments(log) == [0, 3, 5]
    log.close()


# --- truncating
# -------------------------------------------------------------------------------------------------


def test_truncation_drops_batches_epochs_and_segments(tmp_path: Path) -> None:
    log = small(tmp_path)
    kept = fill(log, 1, 6) + fill(log, 2, 2)
    fill(log, 3, 12)
    assert len(segments(log)) > 3
    log.truncate_to(8)
    assert (log.end_offset, log.last_epoch) == (8, 2)
    assert log.end_offset_for_epoch(2) == (2, 8)
    assert log.end_offset_for_epoch(3) == (-1, -1)
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n2 6\n"
    kept += fill(log, 7, 3)
    log.close()
    log = small(tmp_path)
    assert log.problems == []
    joined = b"".join((log.directory / f"{base:020d}.log").read_bytes() for base in segments(log))
    assert joined == b"".join(one.data for one in kept)
    assert [log.end_offset_for_epoch(epoch) for epoch in range(9)] == [
        (0, 0),
        (1, 6),
        (2, 8),
        (2, 8),
        (2, 8),
        (2, 8),
        (2, 8),
        (7, 11),
        (-1, -1),
    ]
    log.close()


@pytest.mark.parametrize(
    ("offset", "end"),
    [(0, 0), (1, 0), (2, 0), (3, 3), (5, 3), (6, 6), (8, 6), (9, 9), (10, 10), (99, 10)],
)
def test_truncation_inside_a_batch_goes_to_its_begin(tmp_path: Path, offset: int, end: int) -> None:
    log = small(tmp_path, segment_bytes=200)
    fill(log, 1, 3, records=3)
    fill(log, 1)
    log.truncate_to(offset)
    assert log.end_offset == end
    assert fill(log, 2)[0].offset == end
    log.close()


def test_committed_records_are_never_truncated(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 9, records=2)
    log.set_high_watermark(9)  # in the middle of a batch, as no quorum would have it
    before = sorted((path.name, path.read_bytes()) for path in log.directory.iterdir())
    for offset in (0, 8, 9):
        with pytest.raises(
            BelowHighWatermark, match=rf"truncate to offset {offset}.* high watermark 9"
        ):
            log.truncate_to(offset)
    assert sorted((path.name, path.read_bytes()) for path in log.directory.iterdir()) == before
    log.truncate_to(10)
    assert log.end_offset == 10
    log.close()


# --- high watermark
# -------------------------------------------------------------------------------------------------


def test_the_high_watermark_is_kept(tmp_path: Path) -> None:
    log = small(tmp_path)
    fill(log, 1, 4)
    log.set_high_watermark(3)
    log.set_high_watermark(2)
    assert log.high_watermark == 3, "it never goes back"
    with pytest.raises(ValueError, match="beyond the end of the log, 4"):
        log.set_high_watermark(5)
    log.close()
    log = small(tmp_path)
    assert log.high_watermark == 3
    log.close()


def test_flushed_records_are_not_flushed_again_for_the_high_watermark(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk()
    log = LocalLog.open(tmp_path, LogSettings(), disk=disk)
    fill(log, 1, 2)
    assert log.flushed_offset == 0
    log.set_high_watermark(1)
    assert log.flushed_offset == 2
    fill(log, 1, 2)
    before = disk.count
    log.set_high_watermark(2)
    assert disk.log[before:] == ["write high-watermark", "sync high-watermark"]
    log.set_high_watermark(3)
    assert log.flushed_offset == 4
    log.truncate_to(3)
    assert log.flushed_offset == 3
    log.close()
