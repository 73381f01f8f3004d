"""The log source while its directory changes: growth, torn and damaged ends, deletions."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import crc32c
import pytest

from gateway.log.reading import follower
from gateway.ports.services import OffsetAt, OffsetOutOfRange, State
from gateway.sources import log_directory, open_log
from tests.gateway.log.kafka_files import KafkaLog, batch
from tests.gateway.sources.log_directory_reads import (
    check_lookups,
    plain,
)
from tests.gateway.sources.reading import batches_from, caught_up, joined


@pytest.fixture(autouse=True, scope="module")
def notices_at_once() -> Iterator[None]:
    """Report notices at once, for all tests but the one on their delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "_NOTICE_AFTER_S", 0.0)
        yield


# --- following
# -------------------------------------------------------------------------------------------------


def test_callbacks_run_when_the_end_or_the_start_moves(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(5)
    source = caught_up(open_log(tmp_path))
    moves: list[tuple[int, int]] = []
    stop = source.on_advance(lambda: moves.append((source.log_start_offset, source.high_watermark)))
    assert source.refresh() is False and moves == []
    log.append()
    assert source.refresh() is True and moves == [(0, 6)]
    log.roll()
    assert source.refresh() is False
    log.delete_before(log.snapshot(6, (1,)))
    assert source.refresh() is True and moves[-1] == (3, 6)
    stop()
    stop()
    log.append()
    assert source.refresh() is True and len(moves) == 2


def test_a_torn_tail_is_waited_for(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(2)
    source = caught_up(open_log(tmp_path))
    data = batch(2, 3).data
    with log.active().open("ab", buffering=0) as file:
        for number, byte in enumerate(data, 1):
            file.write(bytes([byte]))
            source.refresh()
            whole = number == len(data)
            assert source.state is State.READY
            assert source.high_watermark == (5 if whole else 2)
            assert (source.problem is None) == whole
            assert whole or "incomplete" in str(source.problem)


def test_a_torn_tail_is_a_problem_only_when_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_directory, "_NOTICE_AFTER_S", 3600.0)
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(2)
    source = caught_up(open_log(tmp_path))
    with log.active().open("ab") as file:
        file.write(batch(2).data[:50])
    caught_up(source)
    assert source.problems == ()
    monkeypatch.setattr(log_directory, "_NOTICE_AFTER_S", 0.0)
    assert "incomplete: 50 bytes, less than a batch header" in str(source.problem)


def test_a_corrupt_middle_ends_the_log_with_its_place_named_and_heals(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    first, second, _ = log.append(2), log.append(2), log.append(2)
    data = bytearray(log.active().read_bytes())
    data[len(first.data) + 70] ^= 1
    log.active().write_bytes(data)
    source = caught_up(open_log(tmp_path))
    assert (source.state, source.high_watermark) == (State.BROKEN, 2)
    assert batches_from(source, 0) == plain([first])
    problem = source.problem
    assert problem and (problem.file, problem.position) == (str(log.active()), len(first.data))
    assert "CRC" in problem.reason and str(len(first.data)) in str(problem)
    data[len(first.data) : len(first.data) + len(second.data)] = second.data
    log.active().write_bytes(data)
    caught_up(source)
    assert (source.state, source.high_watermark, source.problem) == (State.READY, 6, None)


def test_a_torn_batch_before_the_last_segment_is_damage(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(2)
    first = log.active()
    log.roll()
    log.append()
    with first.open("ab") as file:
        file.write(b"\0" * 7 + b"\2")
    source = caught_up(open_log(tmp_path))
    assert (source.state, source.high_watermark) == (State.BROKEN, 2)


def test_a_missing_segment_ends_the_log(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    for _ in range(3):
        log.append(2)
        log.roll()
    path = log.path(2)
    path.rename(tmp_path / "aside")
    source = caught_up(open_log(tmp_path))
    assert (source.state, source.high_watermark) == (State.BROKEN, 2)
    assert "ends at offset 2" in str(source.problem)
    (tmp_path / "aside").rename(path)
    caught_up(source)
    assert (source.state, source.high_watermark) == (State.READY, 6)


def test_an_epoch_that_goes_back_between_segments_ends_the_log(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.epoch = 5
    log.append(2)
    log.roll()
    log.epoch = 4
    log.append()
    source = caught_up(open_log(tmp_path))
    assert (source.state, source.high_watermark) == (State.BROKEN, 2)
    assert "epoch 4 follows epoch 5" in str(source.problem)


def test_a_read_outlives_the_segment(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    first = log.append(10)
    log.roll()
    log.append()
    source = caught_up(open_log(tmp_path))
    held = source.read(0, 10)
    log.delete_before(log.snapshot(10, (2,)))
    for path in log.directory.glob("*.deleted"):
        path.unlink()
    caught_up(source)
    assert source.log_start_offset == 6
    with pytest.raises(OffsetOutOfRange):
        source.read(5, 10)
    assert joined(held) == first.data


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    source = caught_up(open_log(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        log.append(5)
        log.roll()
        log.delete_before(log.snapshot(log.end, (1,)))
        caught_up(source)
        joined(source.read(source.log_start_offset, 100))
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_a_directory_out_of_reach_is_stale_and_comes_back(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    one = log.append(2)
    past(log.directory, log.active())
    source = caught_up(open_log(tmp_path))
    log.directory.rename(tmp_path / "aside")
    assert source.maybe_changed()
    source.refresh()
    assert (source.state, source.high_watermark) == (State.STALE, 2)
    assert source.problem and source.problem.file == str(log.directory)
    assert batches_from(source, 0) == plain([one])
    (tmp_path / "aside").rename(log.directory)
    source.refresh()
    assert source.state is State.READY


@pytest.mark.parametrize("budget", [1, follower.STEP_BYTES])
def test_files_replaced_by_a_copy(
    tmp_path: Path, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As rsync does it: same names, other inodes. The served log stays whole at every step."""
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    for _ in range(4):
        log.append(3, size=60_000)
        log.roll()
    source = caught_up(open_log(tmp_path))
    monkeypatch.setattr(follower.DirectoryFollower.step, "__defaults__", (budget,))
    expected = plain(log.batches)
    for base in log.segments:
        copy = tmp_path / "copy"
        shutil.copy(log.path(base), copy)
        copy.replace(log.path(base))
        source.refresh()
        assert batches_from(source, 0) == expected
    assert source.state is State.READY


def test_another_log_in_the_same_place(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(5)
    source = caught_up(open_log(tmp_path))
    shutil.rmtree(log.directory)
    other = KafkaLog(tmp_path / "__cluster_metadata-0")
    other.append(2, size=33)
    caught_up(source)
    assert batches_from(source, 0) == plain(other.batches)


def test_maybe_changed_is_true_when_there_is_something_to_scan(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    source = open_log(tmp_path)
    assert source.maybe_changed()
    caught_up(source)
    past(log.directory, log.active())
    caught_up(source)
    assert not source.maybe_changed()
    log.append()
    assert source.maybe_changed()
    past(log.directory, log.active())
    caught_up(source)
    assert not source.maybe_changed()
    log.roll()
    assert source.maybe_changed()
    alone = caught_up(open_log(log.path(0)))
    assert not alone.maybe_changed()
    log.path(0).unlink()
    assert alone.maybe_changed() and source.maybe_changed()


def past(*paths: Path) -> None:
    """Set their times to a minute ago, so that a change now is not within the same tick."""
    for path in paths:
        minute_ago = path.stat().st_mtime_ns - 60_000_000_000
        os.utime(path, ns=(minute_ago, minute_ago))


def test_changes_within_one_tick_of_a_scan_are_seen(tmp_path: Path) -> None:
    """The times of file and directory stay as they were when they were scanned."""
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(3)
    # Times ahead of the clock: the scan then cannot come later than a tick, however slow the
    # machine.
    times = [(path, time.time_ns() + 60_000_000_000) for path in (log.active(), log.directory)]
    for path, time_ns in times:
        os.utime(path, ns=(time_ns, time_ns))
    source = caught_up(open_log(tmp_path))
    log.truncate_to(0)
    log.epoch = 2
    log.append(3)  # as many bytes as before
    log.roll()
    log.append()
    for path, time_ns in times:
        os.utime(path, ns=(time_ns, time_ns))
    caught_up(source)
    assert batches_from(source, 0) == plain(log.batches)


def test_changes_that_no_time_shows_are_seen_a_second_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(3)
    past(log.active(), log.directory)
    source = caught_up(open_log(tmp_path))
    time_ns = log.active().stat().st_mtime_ns
    log.truncate_to(0)
    log.epoch = 2
    log.append(3)
    os.utime(log.active(), ns=(time_ns, time_ns))
    assert source.refresh() is False and source.leader_epoch == 1
    monkeypatch.setattr(follower, "_RESCAN_INTERVAL_NS", 0)
    caught_up(source)
    assert source.leader_epoch == 2 and batches_from(source, 0) == plain(log.batches)


def test_the_log_start_moves_inside_a_segment_and_back(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    for _ in range(3):
        for stamp in (30, 10, 20, 5):
            log.append(timestamps=(stamp, stamp + 1, stamp))
        log.roll()
    source = caught_up(open_log(tmp_path, snapshot_prefix=False))
    snapshot = log.snapshot(18, (3,))
    log.delete_before(snapshot)
    caught_up(source)
    assert source.log_start_offset == 18
    assert batches_from(source, 18) == plain(log.batches, 18)
    check_lookups(source)
    for path in log.directory.glob("*.log.deleted"):
        path.rename(path.with_suffix(""))
    caught_up(source)
    assert source.log_start_offset == 0 and source.high_watermark == 36
    assert len(batches_from(source, 0)) == 12


def test_a_start_inside_a_batch_leaves_out_what_is_below(tmp_path: Path) -> None:
    """The batch is sent whole, but no lookup answers with an offset below the start."""
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=10)
    log.append(timestamps=(50, 90, 20, 30))
    log.append(timestamps=(40,))
    log.snapshot(12, (1,))
    source = caught_up(open_log(tmp_path, snapshot_prefix=False))
    assert batches_from(source, 12) == plain(log.batches)
    assert source.offset_for_timestamp(25) == OffsetAt(13, 30, 1)
    assert source.offset_for_timestamp(35) == OffsetAt(14, 40, 1)
    assert source.offset_for_timestamp(60) is None


def test_a_file_that_was_cut_a_moment_ago(tmp_path: Path) -> None:
    """Between the cut and the next look there is less than was indexed: answers are empty, and
    nothing fails.
    """
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(5)
    source = caught_up(open_log(tmp_path))
    os.truncate(log.active(), 0)
    assert joined(source.read(2, 100)) == b""
    assert source.bytes_available(2, 100) == 0
    assert source.offset_for_timestamp(0) is None and source.max_timestamp() is None
    caught_up(source)
    assert (source.state, source.high_watermark) == (State.READY, 0)


def test_records_that_cannot_be_decoded_are_answered_by_their_batch(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(timestamps=(10, 20, 30))
    data = bytearray(log.active().read_bytes())
    data[61] = 0x03  # the first record's length
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4)
    log.active().write_bytes(data)
    source = caught_up(open_log(tmp_path))
    assert source.state is State.READY
    assert source.offset_for_timestamp(25) == OffsetAt(0, 30, 1)
