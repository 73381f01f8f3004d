"""A partition that holds data: appends in one order, readers, restarts, disks that fail."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.produce.append_backlog import AppendBacklog
from gateway.broker.produce.refusal import BatchRefused
from gateway.log.partition.partition_directories import partition_directories
from gateway.ports.replicas import Appended
from gateway.ports.services import State
from gateway.sources.data_partition import DataPartition
from gateway.sources.leader_appends import SLOW_S
from kwire.protocol import ErrorCode
from kwire.records import decode_batches
from tests.gateway.log.counted_reads import read_by
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    TOPIC_ID,
    Ticking,
    appended,
    batch_of,
    kill,
    led,
    partition,
    record,
    record_of_leader,
    settle,
    shown,
)
from tests.gateway.sources.reading import batches_from


def test_batches_get_the_next_offsets_and_the_epoch_of_the_leader(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", epoch=5)
    first = appended(one, batch_of(b"a", b"b"))
    second = appended(one, batch_of(b"c"))
    assert isinstance(first, Appended) and first.base_offset == 0
    assert isinstance(second, Appended) and second.base_offset == 2
    assert shown(one) == [(0, b"a"), (1, b"b"), (2, b"c")]
    data = b"".join(data for _, _, data in batches_from(one, 0))
    assert {batch.header.partition_leader_epoch for batch in decode_batches(data)} == {5}
    assert one.high_watermark == 3 and one.end_offset_for_epoch(5) == (5, 3)
    one.close()


def test_end_of_a_log_has_the_epoch_of_the_leader(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", epoch=5)
    assert one.epoch_at(0) == 5
    appended(one, batch_of(b"a"))
    one.lead(record(7))
    settle(one)
    assert [one.epoch_at(offset) for offset in range(3)] == [5, 7, -1]
    one.close()


def test_readers_that_wait_are_told_of_an_append(tmp_path: Path) -> None:
    one, told = led(tmp_path / "t-0"), []
    one.on_advance(lambda: told.append(one.high_watermark))
    appended(one, batch_of(b"a"))
    assert told == [1]
    one.close()


def test_readers_are_told_when_a_log_cannot_be_read_and_when_it_can_again(tmp_path: Path) -> None:
    disk = FaultyDisk(error=errno.EIO, for_good=True)
    one = led(tmp_path / "t-0", disk=disk)
    told: list[State] = []
    appended(one, batch_of(b"a"))
    one.on_advance(lambda: told.append(one.state))
    disk.fails_at = disk.count
    assert isinstance(appended(one, batch_of(b"b")), BatchRefused)
    assert told == [State.BROKEN]
    one.clean(0)
    settle(one)
    assert told == [State.BROKEN]
    disk.fails_at = -1
    one.clean(0)
    settle(one)
    assert told == [State.BROKEN, State.READY] and shown(one) == [(0, b"a")]
    one.close()


def test_directory_is_that_of_kafka(tmp_path: Path) -> None:
    led(tmp_path / "t-0").close()
    names = {path.name for path in (tmp_path / "t-0").iterdir()}
    first = "00000000000000000000"
    assert names == {
        f"{first}.log",
        f"{first}.index",
        f"{first}.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    assert partition_directories(tmp_path) == {(TOPIC_ID, 0): tmp_path / "t-0"}


@pytest.mark.parametrize("is_clean", [True, False])
def test_everything_is_there_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    settings = replace(SETTINGS, segment_bytes=300)
    one = led(tmp_path / "t-0", settings, epoch=1)
    for number in range(20):
        appended(
            one, batch_of(b"%d" % number, producer_id=9, producer_epoch=0, base_sequence=number)
        )
    before = shown(one)
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 3
    if is_clean:
        one.close()
    again = led(tmp_path / "t-0", settings, epoch=2)
    assert shown(again) == before == [(n, b"%d" % n) for n in range(20)]
    assert again.end_offset_for_epoch(1) == (1, 20)
    repeated = batch_of(b"18", producer_id=9, producer_epoch=0, base_sequence=18)
    outcome = appended(again, repeated)
    assert isinstance(outcome, Appended) and outcome.base_offset == 18
    wrong = appended(again, batch_of(b"x", producer_id=9, producer_epoch=0, base_sequence=21))
    assert isinstance(wrong, BatchRefused)
    assert wrong.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert shown(again) == before and again.stored.repairs == []
    again.close()


def test_start_reads_each_batch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = replace(SETTINGS, segment_bytes=100_000)
    one = led(tmp_path / "t-0", settings)
    for number in range(30):
        appended(one, batch_of(bytes(10_000), producer_id=9, base_sequence=number))
    one.close()
    segments = [*(tmp_path / "t-0").glob("*.log")]
    size = sum(path.stat().st_size for path in segments)
    made: list[DataPartition] = []
    read = read_by(monkeypatch, lambda: made.append(led(tmp_path / "t-0", settings)))
    assert len(segments) > 2 and size <= read <= size * 1.1
    made[0].close()


def test_batch_that_was_cut_by_a_crash_is_removed_and_reported(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    appended(one, batch_of(b"a"))
    appended(one, batch_of(b"b"))
    one.close()
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:-1])
    again = led(tmp_path / "t-0", epoch=2)
    assert shown(again) == [(0, b"a")] and len(again.stored.repairs) == 1
    assert isinstance(appended(again, batch_of(b"c")), Appended)
    assert shown(again) == [(0, b"a"), (1, b"c")]
    again.close()


def test_damage_before_the_last_segment_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    settings = replace(SETTINGS, segment_bytes=100)
    one = led(tmp_path / "t-0", settings)
    for number in range(4):
        appended(one, batch_of(b"%d" % number * 50))
    one.close()
    first = sorted((tmp_path / "t-0").glob("*.log"))[1]
    damaged = bytearray(first.read_bytes())
    damaged[-1] ^= 1
    first.write_bytes(damaged)
    before = {path: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}
    again = led(tmp_path / "t-0", settings)
    assert again.state is State.BROKEN and str(first) in str(again.problems[0])
    outcome = appended(again, batch_of(b"x"))
    assert isinstance(outcome, BatchRefused)
    again.close()
    assert before == {path: path.read_bytes() for path in (tmp_path / "t-0").iterdir()}


def test_append_before_the_log_is_open_waits_for_it(tmp_path: Path) -> None:
    one = partition(tmp_path / "t-0")
    outcomes: list[Any] = []
    one.lead(record(1))
    assert one.state is State.LOADING
    one.append(batch_of(b"a"), outcomes.append)
    assert outcomes == []
    settle(one)
    assert [outcome.base_offset for outcome in outcomes] == [0]
    assert shown(one) == [(0, b"a")]
    one.close()


def test_append_at_a_partition_that_another_node_leads_is_refused(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    one.follow(record_of_leader(2))
    outcome = appended(one, batch_of(b"a"))
    assert isinstance(outcome, BatchRefused)
    assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one.leader is None and not one.is_leader
    one.close()


def test_leader_of_a_lower_epoch_than_its_log_takes_no_records_and_says_why(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", epoch=7)
    appended(one, batch_of(b"newer"))
    one.lead(record(3))
    settle(one)
    outcome = appended(one, batch_of(b"older"))
    assert isinstance(outcome, BatchRefused)
    assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "records of leader epoch 7" in outcome.message and "epoch 3" in outcome.message
    assert one.stored.log.end_offset == 1
    kill(one)
    again = led(tmp_path / "t-0", epoch=7)
    outcome = appended(again, batch_of(b"next"))
    assert isinstance(outcome, Appended) and outcome.base_offset == 1


def test_segment_begins_in_a_job_and_the_appends_behind_it_keep_their_order(
    tmp_path: Path,
) -> None:
    one = led(tmp_path / "t-0", replace(SETTINGS, segment_bytes=100))
    outcomes: list[Appended] = []
    one.append(batch_of(b"a"), outcomes.append)
    assert len(outcomes) == 1 and not one.has_jobs
    one.append(batch_of(b"b" * 60), outcomes.append)
    one.append(batch_of(b"c"), outcomes.append)
    assert len(outcomes) == 1 and one.has_jobs
    settle(one)
    assert [outcome.base_offset for outcome in outcomes] == [0, 1, 2]
    assert [value for _, value in shown(one)] == [b"a", b"b" * 60, b"c"]
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 3
    one.close()


def test_append_after_a_slow_one_is_a_job_until_the_disk_is_quick_again(tmp_path: Path) -> None:
    clock = Ticking()
    one = led(tmp_path / "t-0", clock=clock)
    outcomes: list[Appended] = []
    clock.step = SLOW_S * 2
    one.append(batch_of(b"a"), outcomes.append)
    one.append(batch_of(b"b"), outcomes.append)
    assert len(outcomes) == 1 and one.has_jobs
    clock.step = 0
    settle(one)
    one.append(batch_of(b"c"), outcomes.append)
    assert len(outcomes) == 3 and not one.has_jobs
    assert shown(one) == [(0, b"a"), (1, b"b"), (2, b"c")]
    one.close()


def test_every_operation_may_fail_and_the_log_goes_on_behind_what_was_acknowledged(
    tmp_path: Path,
) -> None:
    """A full disk: the producer gets an error it retries on, and the next append works."""
    settings = replace(SETTINGS, segment_bytes=200)
    for fails_at in range(60):
        directory = tmp_path / str(fails_at) / "t-0"
        disk = FaultyDisk(fails_at, errno.ENOSPC)
        one = partition(directory, settings, disk=disk)
        one.lead(record(1))
        settle(one)
        if one.state is State.BROKEN:
            one.lead(record(1))
            settle(one)
        acknowledged = []
        for number in range(8):
            for _ in range(3):
                outcome = appended(one, batch_of(b"%d" % number * 20))
                if isinstance(outcome, Appended):
                    acknowledged.append((outcome.base_offset, b"%d" % number * 20))
                    break
            else:
                raise AssertionError(f"three appends failed: {outcome}")
        assert shown(one) == acknowledged, f"operation {fails_at} failed"
        again = led(directory, settings, epoch=2)
        assert shown(again) == acknowledged, f"operation {fails_at} failed"


def of_three_segments(directory: Path, **settings: Any) -> Any:
    """Records 0, 1 and 2 with timestamps 1000, 2000 and 3000, each in a segment of its own."""
    one = led(directory, replace(SETTINGS, segment_bytes=10, **settings))
    for number in range(3):
        appended(one, batch_of(b"%d" % number, timestamp=1000 * (number + 1)))
    return one


def cleaned(one: Any, now_ms: int) -> list[int]:
    """The offsets that are left."""
    one.clean(now_ms)
    settle(one)
    return [offset for offset, _ in shown(one)]


def test_segments_go_when_their_newest_record_is_too_old(tmp_path: Path) -> None:
    one, told = of_three_segments(tmp_path / "t-0", retention_ms=500), []
    one.on_advance(lambda: told.append(one.log_start_offset))
    assert cleaned(one, 1500) == [0, 1, 2]
    assert cleaned(one, 1501) == [1, 2] and told == [1]
    assert one.stored.deleted == ["00000000000000000000.log"]
    # The last one, too: the log goes on, empty, behind it.
    assert cleaned(one, 9999) == [] and one.log_start_offset == one.high_watermark == 3
    assert cleaned(one, 99999) == []
    assert isinstance(appended(one, batch_of(b"3", timestamp=100_000)), Appended)
    assert shown(one) == [(3, b"3")]
    one.close()
    again = led(tmp_path / "t-0", epoch=2)
    assert shown(again) == [(3, b"3")] and again.log_start_offset == 3
    again.close()


def test_records_without_timestamps_are_as_old_as_their_file(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", replace(SETTINGS, retention_ms=10**6))
    appended(one, batch_of(b"a", timestamp=-1))
    written_ms = (tmp_path / "t-0" / "00000000000000000000.log").stat().st_mtime_ns // 10**6
    assert cleaned(one, written_ms + 10**6) == [0]
    assert cleaned(one, written_ms + 10**6 + 1) == []
    one.close()


def test_segments_go_while_the_rest_is_as_large_as_the_retention(tmp_path: Path) -> None:
    size = len(batch_of(b"0").data)
    for keep, left in (
        (3 * size, [0, 1, 2]),
        (2 * size + 1, [0, 1, 2]),
        (2 * size, [1, 2]),
        (size, [2]),
        (0, []),
    ):
        one = of_three_segments(tmp_path / str(keep) / "t-0", retention_bytes=keep, retention_ms=-1)
        assert cleaned(one, 10**15) == left
        one.close()


def test_retention_without_limits_keeps_everything(tmp_path: Path) -> None:
    one = of_three_segments(tmp_path / "t-0", retention_bytes=-1, retention_ms=-1)
    assert cleaned(one, 10**15) == [0, 1, 2]
    one.close()


def test_epochs_of_deleted_records_are_forgotten(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0", replace(SETTINGS, segment_bytes=10, retention_ms=500), epoch=1)
    appended(one, batch_of(b"0", timestamp=1000))
    one.lead(record(4))
    settle(one)
    appended(one, batch_of(b"1", timestamp=2000))
    assert one.end_offset_for_epoch(2) == (1, 1)
    assert cleaned(one, 1600) == [1]
    assert one.end_offset_for_epoch(2) == (2, 1)  # older than every known epoch: the log start
    one.close()


def test_clean_opens_a_log_again_that_could_not_be_opened(tmp_path: Path) -> None:
    (tmp_path / "t-0").write_bytes(b"a file where the directory has to be")
    one = led(tmp_path / "t-0")
    assert one.problems
    (tmp_path / "t-0").unlink()
    one.clean(0)
    settle(one)
    assert not one.problems and isinstance(appended(one, batch_of(b"a")), Appended)
    one.close()


def test_jobs_that_come_while_a_thread_performs_others_wait_for_it(tmp_path: Path) -> None:
    woken: list[object] = []
    one = partition(tmp_path / "t-0", wake=woken.append)
    outcomes: list[Any] = []
    one.lead(record(1))
    one.append(batch_of(b"a"), outcomes.append)
    assert len(woken) == 2  # before a thread has the first job
    jobs = one.take_jobs()
    assert len(jobs) == 2 and one.take_jobs() == []
    one.append(batch_of(b"b"), outcomes.append)
    assert one.take_jobs() == []
    one.performed(one.perform(jobs))
    assert [outcome.base_offset for outcome in outcomes] == [0] and len(woken) == 3
    settle(one)
    assert shown(one) == [(0, b"a"), (1, b"b")]
    one.close()


def test_deleted_partition_is_closed_and_removed_after_the_appends_before(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    removed: list[Path] = []
    outcomes: list[Any] = []
    one.delete(removed.append)
    assert one.state is State.LOADING
    one.append(batch_of(b"a"), outcomes.append)
    settle(one)
    assert removed == [tmp_path / "t-0"]
    assert [outcome.error for outcome in outcomes] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_batches_behind_a_slow_disk_are_counted_until_they_are_written(tmp_path: Path) -> None:
    clock, backlog = Ticking(), AppendBacklog(1000)
    one = led(tmp_path / "t-0", clock=clock, backlog=backlog)
    clock.step = 1.0
    appended(one, batch_of(b"slow"))
    assert backlog.bytes == 0
    outcomes: list[Any] = []
    sizes = [len(batch_of(b"x" * length).data) for length in (100, 200)]
    for length in (100, 200):
        one.append(batch_of(b"x" * length), outcomes.append)
    assert outcomes == [] and backlog.bytes == sum(sizes)
    settle(one)
    assert len(outcomes) == 2 and backlog.bytes == 0


def test_batch_that_is_refused_behind_a_slow_disk_is_counted_no_more(tmp_path: Path) -> None:
    clock, backlog = Ticking(), AppendBacklog(1000)
    one = led(tmp_path / "t-0", clock=clock, backlog=backlog)
    clock.step = 1.0
    appended(one, batch_of(b"slow"))
    outcomes: list[Any] = []
    one.append(batch_of(b"x"), outcomes.append)
    assert backlog.bytes > 0
    one.follow(record_of_leader(2))
    settle(one)
    assert [outcome.error for outcome in outcomes] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert backlog.bytes == 0
