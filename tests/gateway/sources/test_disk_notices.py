"""A disk that refuses batches: what is reported, and how often."""

from __future__ import annotations

import errno
from pathlib import Path

from gateway.broker.produce.refusal import BatchRefused
from gateway.ports.replicas import Appended
from gateway.sources.disk_notices import REFUSED, TAKEN, DiskNotices
from kwire.protocol import ErrorCode
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.data_partitions import appended, batch_of, led

WRITTEN = Appended(0, -1, 0)
FULL = BatchRefused(ErrorCode.KAFKA_STORAGE_ERROR, "no space")


class Reported(list[tuple[str, str]]):
    """The events, and a clock that a test sets."""

    now = 0.0

    def notices(self) -> DiskNotices:
        return DiskNotices(lambda event, text: self.append((event, text)), lambda: self.now)


def test_first_refusal_and_the_first_batch_after_it_are_reported() -> None:
    reported = Reported()
    notices = reported.notices()
    for outcome in (WRITTEN, FULL, FULL, FULL, WRITTEN, WRITTEN):
        notices.note(outcome)
    assert reported == [(REFUSED, "no space"), (TAKEN, "")]


def test_refusals_are_reported_once_a_minute_while_other_batches_fit() -> None:
    reported = Reported()
    notices = reported.notices()
    for _ in range(100):
        notices.note(FULL)
        notices.note(WRITTEN)
    assert len(reported) == 2
    reported.now = 60.0
    notices.note(FULL)
    assert reported[2:] == [(REFUSED, "no space")]


def test_other_errors_are_none_of_the_disk() -> None:
    reported = Reported()
    reported.notices().note(BatchRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, ""))
    assert reported == []


def test_partition_on_a_full_disk_is_read_and_takes_records_when_there_is_space(
    tmp_path: Path,
) -> None:
    reported = Reported()
    disk = FaultyDisk(error=errno.ENOSPC)
    one = led(tmp_path / "t-0", disk=disk, notices=reported.notices())
    appended(one, batch_of(b"before"))
    for _ in range(3):
        disk.fails_at = disk.count  # the write; its half can be cut off again
        outcome = appended(one, batch_of(b"lost"))
        assert isinstance(outcome, BatchRefused)
        assert outcome.error is ErrorCode.KAFKA_STORAGE_ERROR
        assert "make room on that file system" in outcome.message
        assert one.high_watermark == 1 and one.read(0, 1000).chunks
    assert isinstance(appended(one, batch_of(b"after")), Appended)
    assert [event for event, _ in reported] == [REFUSED, TAKEN]
    assert "No space left on device" in reported[0][1]
    one.close()
