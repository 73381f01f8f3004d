"""Appends that wait for the disk: ``flush.messages`` of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.replica.followed import Append
from gateway.log.partition.log_settings import LogSettings
from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode
from kwire.records import Record, encode_batch
from tests.gateway.log.faulty_disk import FaultyDisk
from tests.gateway.sources.data_partitions import appended, batch_of, led
from tests.gateway.sources.followings import carry_out, followed, following, position

LOG = "sync 00000000000000000000.log"


def of_leader(base: int, count: int) -> bytes:
    records = [Record(offset=base + at, timestamp=5, value=b"v") for at in range(count)]
    return encode_batch(records, base_offset=base, partition_leader_epoch=1)


@pytest.mark.parametrize(
    ("flush_messages", "syncs"), [(1, [1, 2, 3, 4]), (3, [0, 1, 1, 2]), (2**63 - 1, [0, 0, 0, 0])]
)
def test_leader_syncs_before_it_answers_the_batch_that_makes_the_number_full(
    tmp_path: Path, flush_messages: int, syncs: list[int]
) -> None:
    disk = FaultyDisk()
    settings = LogSettings(flush_messages=flush_messages)
    one = led(tmp_path / "t-0", settings, disk=disk)
    found = []
    for values in ((b"a", b"b"), (b"c",), (b"d", b"e"), (b"f",)):
        assert isinstance(appended(one, batch_of(*values)), Appended)
        found.append(disk.log.count(LOG))
    assert found == syncs
    one.close()


@pytest.mark.parametrize(("flush_messages", "syncs"), [(1, [1, 2, 3]), (3, [0, 1, 1])])
def test_follower_syncs_before_it_fetches_on(
    tmp_path: Path, flush_messages: int, syncs: list[int]
) -> None:
    disk = FaultyDisk()
    one = following(
        tmp_path / "t-0", settings=LogSettings(flush_messages=flush_messages), disk=disk
    )
    found = []
    for base, count in ((0, 2), (2, 1), (3, 2)):
        carry_out(one, Append(followed(one), of_leader(base, count), 0, 0))
        assert position(one).end_offset == base + count
        found.append(disk.log.count(LOG))
    assert found == syncs
    one.close()


def test_batch_that_does_not_reach_the_disk_is_not_acknowledged(tmp_path: Path) -> None:
    disk = FaultyDisk()
    one = led(tmp_path / "t-0", LogSettings(flush_messages=2), disk=disk)
    before = disk.count
    assert isinstance(appended(one, batch_of(b"a")), Appended)
    disk.fails_at = 2 * disk.count - before  # as many writes, then the sync
    refused = appended(one, batch_of(b"b"))
    assert isinstance(refused, BatchRefused)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert disk.log[disk.fails_at] == LOG
    one.close()


def test_log_without_fsync_waits_for_no_disk(tmp_path: Path) -> None:
    disk: Any = FaultyDisk()
    disk.fsync = False
    one = led(tmp_path / "t-0", LogSettings(fsync=False, flush_messages=1), disk=disk)
    assert isinstance(appended(one, batch_of(b"a")), Appended)
    assert disk.log.count(LOG) == 0
    one.close()
