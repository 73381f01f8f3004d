"""DeleteRecords at a partition: the log start moves, segments below it go, and it stays there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.broker.produce.refusal import BatchRefused
from gateway.log.files.disk import Disk
from gateway.log.files.offset_checkpoint import Checkpoints
from gateway.log.partition.cleanup_settings import CleanupSettings
from gateway.ports.services import OffsetOutOfRange
from kwire.protocol import ErrorCode
from tests.gateway.log.crash_disk import CrashDisk, RecordingDisk, write_state
from tests.gateway.sources.data_partitions import (
    SETTINGS,
    appended,
    batch_of,
    kill,
    led,
    record_of_leader,
    settle,
    shown,
)

_SMALL = replace(SETTINGS, segment_bytes=100)


def of_six_records(directory: Path, settings: Any = _SMALL, **more: Any) -> Any:
    """Segments of two records each: one batch at a time, of one and of one."""
    one = led(directory, settings, **more)
    for first in range(0, 6, 2):
        appended(one, batch_of(b"%d" % first * 30, b"%d" % (first + 1)))
    return one


def deleted(one: Any, before: int) -> int | ErrorCode:
    """The outcome, after the jobs that it takes."""
    outcomes: list[int | ErrorCode] = []
    one.delete_records(before, outcomes.append)
    settle(one)
    assert len(outcomes) == 1, "the outcome comes once"
    return outcomes[0]


def offsets(one: Any) -> list[int]:
    return [offset for offset, _ in shown(one) if offset >= one.log_start_offset]


@pytest.mark.parametrize("is_clean", [True, False])
def test_records_below_the_offset_are_gone_also_after_a_restart(
    tmp_path: Path, is_clean: bool
) -> None:
    one, told = of_six_records(tmp_path / "t-0"), []
    one.on_advance(lambda: told.append(one.log_start_offset))
    assert deleted(one, 3) == 3 and told == [3]
    assert offsets(one) == [3, 4, 5]
    assert sorted(path.stem for path in (tmp_path / "t-0").glob("*.log"))[0].endswith("2")
    with pytest.raises(OffsetOutOfRange):
        one.read(2, 1000)
    assert deleted(one, 1) == 3, "it never moves back"
    if is_clean:
        one.close()
    again = led(tmp_path / "t-0", _SMALL, epoch=2)
    assert again.log_start_offset == 3 and offsets(again) == [3, 4, 5]
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    again.close()


def test_all_records_go_up_to_the_high_watermark(tmp_path: Path) -> None:
    one = of_six_records(tmp_path / "t-0")
    assert deleted(one, -1) == 6 and offsets(one) == []
    assert one.log_start_offset == one.high_watermark == 6
    one.close()
    again = led(tmp_path / "t-0", _SMALL, epoch=2)
    assert again.log_start_offset == 6
    assert appended(again, batch_of(b"x")).base_offset == 6  # type: ignore[union-attr]
    assert shown(again) == [(6, b"x")]
    again.close()


@pytest.mark.parametrize(
    ("before", "settings", "error"),
    [
        (7, _SMALL, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, _SMALL, ErrorCode.OFFSET_OUT_OF_RANGE),
        (
            1,
            replace(_SMALL, cleanup=CleanupSettings(deletes=False, compacts=True)),
            ErrorCode.POLICY_VIOLATION,
        ),
    ],
)
def test_a_wrong_offset_or_topic_is_refused(
    tmp_path: Path, before: int, settings: Any, error: ErrorCode
) -> None:
    one = of_six_records(tmp_path / "t-0", settings)
    assert deleted(one, before) == error and offsets(one) == [0, 1, 2, 3, 4, 5]
    one.close()


def test_a_new_leader_does_not_delete_for_the_old_one(tmp_path: Path) -> None:
    one = of_six_records(tmp_path / "t-0")
    outcomes: list[int | ErrorCode] = []
    one.delete_records(3, outcomes.append)
    one.follow(record_of_leader(2))
    settle(one)
    assert outcomes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    one.close()


def test_a_topic_of_the_same_name_begins_at_its_beginning(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, Disk(fsync=False), [])
    one = of_six_records(tmp_path / "t-0", checkpoints=checkpoints)
    assert deleted(one, 3) == 3
    one.delete(lambda directory: directory.rename(tmp_path / "gone"))
    settle(one)
    again = led(tmp_path / "t-0", checkpoints=checkpoints)
    assert (again.log_start_offset, again.high_watermark) == (0, 0)
    again.close()


def test_retention_moves_the_log_start_and_forgets_the_offset(tmp_path: Path) -> None:
    one = of_six_records(tmp_path / "t-0", replace(_SMALL, retention_ms=10))
    assert deleted(one, 3) == 3
    one.clean(10**6)
    settle(one)
    assert one.log_start_offset == 6
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    one.close()


def test_an_offset_behind_the_log_that_was_lost_is_where_it_goes_on(tmp_path: Path) -> None:
    one = of_six_records(tmp_path / "t-0")
    assert deleted(one, -1) == 6
    one.close()
    for path in (tmp_path / "t-0").glob("0*"):
        path.unlink()
    again = led(tmp_path / "t-0", _SMALL, epoch=2)
    assert (again.log_start_offset, again.high_watermark) == (6, 6)
    again.close()


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_crash_behind_any_operation_brings_no_deleted_record_back(
    tmp_path: Path, delay_ms: int
) -> None:
    root = tmp_path / "life"
    root.mkdir()
    disk = RecordingDisk(root)
    one = of_six_records(root / "t-0", replace(_SMALL, file_delete_delay_ms=delay_ms), disk=disk)
    begins = len(disk.ops)
    for before in (1, 2, 5, 6):
        assert deleted(one, before) == before
        disk.ack(before)
        if before == 5:
            assert bool(disk.waiting) == (delay_ms > 0)
            disk.delete_waiting()
    one.close()
    crash, promised = CrashDisk(), 0
    for number, op in enumerate(disk.ops):
        if op.kind == "ack":
            promised = op.value
            continue
        crash.apply(op)
        if number < begins:
            continue
        for at, state in enumerate(crash.killed(op)):
            directory = tmp_path / f"{number}-{at}"
            directory.mkdir()
            write_state(directory, state)
            again = led(directory / "t-0", _SMALL, epoch=9)
            assert again.problems == () and again.high_watermark == 6
            assert not list(directory.glob("*/*.deleted"))
            assert again.log_start_offset >= promised
            assert offsets(again) == list(range(again.log_start_offset, 6))
            assert not isinstance(appended(again, batch_of(b"x")), BatchRefused)
            again.close()


def test_producer_goes_on_after_a_kill_although_its_records_are_deleted(tmp_path: Path) -> None:
    def produce(sequence: int) -> Any:
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        return appended(one, batch_of(b"v", **header))

    one = led(tmp_path / "t-0")
    for sequence in range(5):
        produce(sequence)
    assert deleted(one, 5) == 5
    kill(one)
    one = led(tmp_path / "t-0", epoch=2)
    assert one.log_start_offset == 5
    assert produce(4).base_offset == 4, "known as a duplicate"
    # Behind a batch that is not known the sequence would be out of order.
    assert produce(5).base_offset == 5
    one.close()
