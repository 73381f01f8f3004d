"""The log source over real logs, and over directories that change under it in every order that
Kafka has.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import crc32c
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gateway.log import follower
from gateway.ports import OffsetAt, OffsetOutOfRange, State
from gateway.snapshot_id import SnapshotId
from gateway.sources import LogDirectory, log_directory, log_reader, open_log
from tests.gateway.log.kafka_files import KafkaLog, WrittenBatch, batch, snapshot_bytes
from tests.gateway.sources.reading import batches_from, caught_up, joined, records_of
from tests.shared import LOG_NAMES, needs_shared


def moved(data: bytes, by: int) -> list[tuple[int, int, bytes]]:
    """The batches of a snapshot file as they must be served, base offsets ``by`` higher."""
    from kwire.records.header import iter_batches

    return [
        (
            header.base_offset + by,
            header.next_offset + by,
            (header.base_offset + by).to_bytes(8) + data[header.position + 8 : header.end],
        )
        for header in iter_batches(data)
    ]


def plain(batches: list[WrittenBatch], start: int = 0) -> list[tuple[int, int, bytes]]:
    return [(one.offset, one.next_offset, one.data) for one in batches if one.next_offset > start]


@pytest.fixture(autouse=True, scope="module")
def notices_at_once() -> Iterator[None]:
    """What is noticed is shown at once, for all tests but the one on when it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "_NOTICE_AFTER_S", 0.0)
        yield


# --- logs of real Kafka
# -----------------------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_real_log_is_served_byte_for_byte(logs: Any, name: str) -> None:
    checked = 0
    for directory in sorted(logs(name).glob("**/__cluster_metadata-0")):
        source = caught_up(open_log(directory))
        assert (source.state, source.problems) == (State.READY, ())
        served = batches_from(source, source.log_start_offset, 100_000)
        files = sorted(directory.glob("*.log"))
        raw = b"".join(file.read_bytes() for file in files)
        log = moved(raw, 0)
        start = 0
        if int(files[0].stem) > 0:
            snapshot = min(directory.glob("*.checkpoint"))
            start = int(snapshot.name[:20])
            count = moved(snapshot.read_bytes(), 0)[-1][1]
            prefix = moved(snapshot.read_bytes(), start - count)
            assert served[: len(prefix)] == prefix
            assert source.log_start_offset == start - count
            served = served[len(prefix) :]
        assert served == [one for one in log if one[1] > start]
        assert source.high_watermark == log[-1][1]
        checked += 1
    assert checked


@needs_shared
def test_reads_at_every_offset_and_size(logs: Any) -> None:
    source = caught_up(open_log(logs("p-one-segments") / "nodes" / "7"))
    batches = batches_from(source, source.log_start_offset)
    for at, (base, following, _) in enumerate(batches):
        rest = [len(data) for _, _, data in batches[at:]]
        for offset in {max(base, source.log_start_offset), following - 1}:
            for max_bytes in (0, 1, rest[0] - 1, rest[0], rest[0] + 1, 5000, 1 << 20):
                size = taken = 0
                while taken < len(rest) and (taken == 0 or size + rest[taken] <= max_bytes):
                    size, taken = size + rest[taken], taken + 1
                assert joined(source.read(offset, max_bytes)) == b"".join(
                    one[2] for one in batches[at : at + taken]
                )
            assert source.bytes_available(offset, 1 << 30) == sum(rest)
            assert source.bytes_available(offset, 100) == min(100, sum(rest))


@needs_shared
@pytest.mark.parametrize("name", ["p-one-segments", "p-one-basic", "p-quorum-short"])
def test_timestamps_and_epochs_as_by_looking_at_every_record(logs: Any, name: str) -> None:
    for directory in sorted(logs(name).glob("nodes/*/__cluster_metadata-0")):
        source = caught_up(open_log(directory))
        check_lookups(source)


def check_lookups(source: LogDirectory) -> None:
    """Timestamps, epochs and their ends against the records themselves."""
    records = seen_by_a_client(source)
    for timestamp in {time + add for _, time, _ in records for add in (-1, 0, 1)} | {0, 1 << 60}:
        first = next((one for one in records if one[1] >= timestamp), None)
        assert source.offset_for_timestamp(timestamp) == (first and OffsetAt(*first))
    largest = max((one for one in records), key=lambda one: (one[1], -one[0]), default=None)
    assert source.max_timestamp() == (largest and OffsetAt(*largest))
    for offset, _, epoch in records:
        assert source.epoch_at(offset) == epoch
    assert (
        source.epoch_at(source.log_start_offset - 1) == source.epoch_at(source.high_watermark) == -1
    )
    known = sorted({epoch for _, _, epoch in records})
    for epoch in range((known[-1] if known else 0) + 2):
        pending = [offset for offset, _, other in records if other > epoch]
        floor = max((one for one in known if one <= epoch), default=None)
        expected = (
            (-1, -1)
            if not known or epoch > known[-1]
            else (epoch, pending[0])
            if floor is None
            else None
        )
        end = pending[0] if pending else source.high_watermark
        assert source.end_offset_for_epoch(epoch) == (expected or (floor, end))


def seen_by_a_client(source: LogDirectory) -> list[tuple[int, int, int]]:
    """(offset, timestamp, epoch) of the records that a client takes: those at or above its
    position.
    """
    position, taken = source.log_start_offset, []
    for record in records_of(batches_from(source, position)):
        if record[0] >= position:
            taken.append(record)
            position = record[0] + 1
    return taken


def test_lookups_in_an_empty_log(tmp_path: Path) -> None:
    KafkaLog(tmp_path / "__cluster_metadata-0")
    source = caught_up(open_log(tmp_path))
    assert (source.log_start_offset, source.high_watermark, source.leader_epoch) == (0, 0, 0)
    assert source.state is State.READY
    check_lookups(source)


# --- loading
# ----------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_before_the_end_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    for _ in range(30):
        log.append(size=50_000)
    monkeypatch.setattr(follower.DirectoryFollower.step, "__defaults__", (100_000,))
    source = open_log(tmp_path)
    steps = 0
    while source.state is State.LOADING:
        with pytest.raises(OffsetOutOfRange):
            source.read(0, 100)
        assert source.high_watermark == 0 and source.refresh_delay_s == 0
        source.refresh()
        steps += 1
    assert steps > 5
    assert source.high_watermark == 30 and source.refresh_delay_s > 0


def test_growth_is_shown_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    source = caught_up(open_log(tmp_path))
    for _ in range(30):
        log.append(size=50_000)
    monkeypatch.setattr(follower.DirectoryFollower.step, "__defaults__", (100_000,))
    ends = []
    while source.high_watermark < 30:
        source.refresh()
        ends.append(source.high_watermark)
    assert ends == sorted(ends) and len(set(ends)) > 5


# --- following
# --------------------------------------------------------------------------------------------------------


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
    """As rsync does it: same names, other inodes. What is served stays whole at every step."""
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


def test_stirred_is_true_when_there_is_something_to_scan(tmp_path: Path) -> None:
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


def test_changes_within_one_tick_of_a_look_are_seen(tmp_path: Path) -> None:
    """The times of file and directory stay as they were when they were looked at."""
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(3)
    source = caught_up(open_log(tmp_path))
    times = [(path, path.stat().st_mtime_ns) for path in (log.active(), log.directory)]
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
        for time in (30, 10, 20, 5):
            log.append(timestamps=(time, time + 1, time))
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


# --- snapshots
# --------------------------------------------------------------------------------------------------------


def test_the_prefix_is_the_snapshot_with_other_base_offsets(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=50)
    log.append(70)
    snapshot = log.snapshot(100, (5, 3))
    data = (log.directory / snapshot.file_name).read_bytes()
    source = caught_up(open_log(tmp_path))
    assert (source.log_start_offset, source.high_watermark) == (90, 120)
    served = batches_from(source, 90, 10)
    assert served[:-1] == moved(data, 90) and served[-1:] == plain(log.batches)
    assert batches_from(caught_up(open_log(tmp_path)), 90) == served
    assert [source.epoch_at(offset) for offset in (90, 99, 100)] == [1, 1, 1]
    check_lookups(source)


def test_a_prefix_of_many_batches_comes_in_several_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=100)
    log.append(20)
    snapshot = log.snapshot(100, (1,) * 40)
    monkeypatch.setattr(log_reader, "_PREFIX_BATCHES_MAX", 7)
    source = caught_up(open_log(tmp_path))
    served = batches_from(source, source.log_start_offset)
    assert (
        served[:-1] == moved((log.directory / snapshot.file_name).read_bytes(), 58)
        and len(served) == 43
    )
    assert len(source.read(60, 1 << 20).chunks) == 14


def test_the_prefix_can_be_turned_off(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=100)
    log.append(20)
    log.snapshot(100, (5, 3))
    source = caught_up(open_log(tmp_path, snapshot_prefix=False))
    assert (source.log_start_offset, source.high_watermark) == (100, 120)
    assert batches_from(source, 100) == plain(log.batches)


@pytest.mark.parametrize(
    ("end", "data", "reason"),
    [
        (9, snapshot_bytes(1, (8,)), "10 records do not fit below its end offset 9"),
        (100, snapshot_bytes(1, (8,), footer=False), "no SNAPSHOT_FOOTER"),
        (100, snapshot_bytes(1, (8,))[:-10], "incomplete"),
        (100, snapshot_bytes(1, (8,)).replace(b"\5\5", b"\5\6", 1), "CRC"),
        (100, b"", "no SNAPSHOT_FOOTER"),
    ],
)
def test_a_snapshot_that_cannot_be_a_prefix_is_named(
    tmp_path: Path, end: int, data: bytes, reason: str
) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=end)
    log.append(20)
    (log.directory / SnapshotId(end, 1).file_name).write_bytes(data)
    source = caught_up(open_log(tmp_path))
    assert (source.state, source.log_start_offset, source.high_watermark) == (
        State.READY,
        end,
        end + 20,
    )
    assert reason in str(source.problem)


def test_a_snapshot_beyond_the_log_replaces_it(tmp_path: Path) -> None:
    """A follower that died between downloading a snapshot and dropping its log
    (``truncateToLatestSnapshot``).
    """
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    log.append(20)
    source = caught_up(open_log(tmp_path))
    log.epoch = 3
    (log.directory / SnapshotId(100, 3).file_name).write_bytes(snapshot_bytes(3, (8,)))
    caught_up(source)
    assert (source.log_start_offset, source.high_watermark, source.leader_epoch) == (90, 100, 3)
    assert batches_from(source, 90) == moved(snapshot_bytes(3, (8,)), 90)
    for path in log.directory.glob("*.log"):
        path.rename(f"{path}.deleted")
    new = KafkaLog(log.directory, start=100)
    new.epoch = 3
    new.append(2)
    caught_up(source)
    assert batches_from(source, 100) == plain(new.batches) and source.log_start_offset == 90


def test_the_bootstrap_snapshot_never_counts(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0")
    (log.directory / SnapshotId(0, 0).file_name).write_bytes(snapshot_bytes(0, (2,)))
    log.append(3)
    source = caught_up(open_log(tmp_path))
    assert batches_from(source, 0) == plain(log.batches) and source.problems == ()


# --- a file on its own
# ------------------------------------------------------------------------------------------------


@needs_shared
def test_a_snapshot_file_is_served_byte_for_byte(logs: Any) -> None:
    path = min(
        (logs("p-one-segments") / "nodes" / "7" / "__cluster_metadata-0").glob("*.checkpoint")
    )
    source = caught_up(open_log(path))
    assert source.log_start_offset == 0
    assert b"".join(data for _, _, data in batches_from(source, 0)) == path.read_bytes()
    check_lookups(source)


def test_a_segment_file_is_loaded_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = KafkaLog(tmp_path)
    for _ in range(10):
        log.append(size=100_000)
    monkeypatch.setattr(follower.FileFollower.step, "__defaults__", (100_000,))
    source = open_log(log.active())
    source.refresh()
    assert source.state is State.LOADING and source.maybe_changed()
    caught_up(source)
    assert batches_from(source, 0) == plain(log.batches)


def test_a_segment_file_is_followed(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path, start=40)
    log.append(3)
    source = caught_up(open_log(log.active()))
    assert (source.log_start_offset, source.high_watermark) == (40, 43)
    log.append(3)
    assert source.refresh() is True
    assert batches_from(source, 40) == plain(log.batches)
    log.truncate_to(43)
    log.epoch = 2
    log.append(1)
    caught_up(source)
    assert batches_from(source, 40) == plain(log.batches) and source.leader_epoch == 2
    log.active().rename(tmp_path / "gone")
    source.refresh()
    assert source.state is State.STALE and batches_from(source, 40) == plain(log.batches)


# --- everything in any order
# ------------------------------------------------------------------------------------------


class Following(RuleBasedStateMachine):
    """Kafka writes, rolls, truncates and cleans; whenever the source looks, it must show exactly
    what is there.
    """

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        self.log = KafkaLog(self.directory / "__cluster_metadata-0")
        self.source = caught_up(open_log(self.directory))
        self.snapshots: dict[int, SnapshotId] = {}
        self.torn: WrittenBatch | None = None
        self.looked = True

    def teardown(self) -> None:
        shutil.rmtree(self.directory)

    @precondition(lambda self: not self.torn)
    @rule(
        times=st.lists(st.integers(0, 50), min_size=1, max_size=4),
        size=st.sampled_from([0, 10, 300, 5000]),
        n=st.integers(1, 9),
    )
    def append(self, times: list[int], size: int, n: int) -> None:
        for _ in range(n):
            self.log.append(size=size, timestamps=tuple(times))

    @precondition(lambda self: not self.torn)
    @rule(cut=st.integers(1, 70))
    def append_part(self, cut: int) -> None:
        self.torn = batch(self.log.end, 1, self.log.epoch, size=30)
        with self.log.active().open("ab") as file:
            file.write(self.torn.data[:cut])
        self.rest = self.torn.data[cut:]

    @precondition(lambda self: self.torn)
    @rule()
    def append_rest(self) -> None:
        assert self.torn
        with self.log.active().open("ab") as file:
            file.write(self.rest)
        list(self.log.segments.values())[-1].append(self.torn)
        self.torn = None

    @precondition(lambda self: not self.torn)
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(back=st.integers(0, 30), raise_epoch=st.booleans())
    def truncate(self, back: int, raise_epoch: bool) -> None:
        lowest = max([next(iter(self.log.segments)), *self.snapshots])
        self.log.truncate_to(max(lowest, self.log.end - back))
        self.torn = None
        # What follows a truncation comes from a new leader.
        self.log.epoch += 1 + raise_epoch

    @precondition(lambda self: self.log.batches and not self.torn)
    @rule(data=st.data(), counts=st.lists(st.integers(1, 4), max_size=3))
    def snapshot(self, data: st.DataObject, counts: list[int]) -> None:
        ends = [
            one.next_offset
            for one in self.log.batches
            if one.next_offset > max(self.snapshots, default=0)
        ]
        if ends:
            end = data.draw(st.sampled_from(ends))
            self.snapshots[end] = self.log.snapshot(end, tuple(counts))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        oldest = data.draw(st.sampled_from(sorted(self.snapshots)))
        self.log.delete_before(self.snapshots[oldest])
        self.snapshots = {end: one for end, one in self.snapshots.items() if end >= oldest}

    @rule()
    def rescan(self) -> None:
        caught_up(self.source)
        self.check(self.source)

    @rule()
    def open_anew(self) -> None:
        self.check(caught_up(open_log(self.directory)))

    @invariant()
    def never_writes(self) -> None:
        assert not list(self.directory.glob("**/*.tmp"))

    def check(self, source: LogDirectory) -> None:
        first = next(iter(self.log.segments))
        start, prefix = 0, []
        if first > 0:
            start = next(end for end in sorted(self.snapshots) if end >= first)
            data = (self.log.directory / self.snapshots[start].file_name).read_bytes()
            count = moved(data, 0)[-1][1]
            prefix = moved(data, start - count) if count <= start else []
        expected = [*prefix, *plain(self.log.batches, start)]
        assert source.state is State.READY
        assert source.high_watermark == max(start, self.log.end)
        assert source.log_start_offset == (prefix[0][0] if prefix else start)
        assert batches_from(source, source.log_start_offset, 700) == expected
        assert bool(source.problems) == bool(self.torn or (first > 0 and not prefix))
        if expected:
            check_lookups(source)


Following.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestFollowing = Following.TestCase
