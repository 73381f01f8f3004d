"""The log source over snapshots and single files, and random changes in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gateway.log.reading import follower
from gateway.ports.services import State
from gateway.sources import log_directory, log_reader, open_log
from kwire.metadata_log.snapshot_id import SnapshotId
from tests.gateway.log.kafka_files import KafkaLog, snapshot_bytes
from tests.gateway.sources.log_directory_reads import (
    Following,
    check_lookups,
    moved,
    plain,
)
from tests.gateway.sources.reading import batches_from, caught_up
from tests.shared import needs_shared


@pytest.fixture(autouse=True, scope="module")
def notices_at_once() -> Iterator[None]:
    """Report notices at once, for all tests but the one on their delay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "_NOTICE_AFTER_S", 0.0)
        yield


# --- snapshots
# -------------------------------------------------------------------------------------------------


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


def test_batch_that_the_snapshot_ends_in_is_the_first_of_an_answer(tmp_path: Path) -> None:
    log = KafkaLog(tmp_path / "__cluster_metadata-0", start=50)
    log.append(70)
    snapshot = log.snapshot(100, (5, 3))
    source = caught_up(open_log(tmp_path))
    before = log_reader.content(source.read(90, 1 << 20).chunks)
    assert before == b"".join(
        data for _, _, data in moved((log.directory / snapshot.file_name).read_bytes(), 90)
    )
    assert log_reader.content(source.read(100, 1 << 20).chunks) == log.batches[0].data


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
# -------------------------------------------------------------------------------------------------


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


Following.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


TestFollowing = Following.TestCase
