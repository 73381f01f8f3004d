"""A partition counts what is appended to it, once, in whatever thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.broker.produce.refusal import BatchRefused
from gateway.log.partition.log_settings import LogSettings
from gateway.sources.append_counts import AppendCounts
from gateway.sources.leader_appends import SLOW_S
from kwire.protocol import ErrorCode
from tests.gateway.sources.data_partitions import Ticking, appended, batch_of, led, record_of_leader


def counted(counts: AppendCounts) -> tuple[int, int]:
    return counts.messages, counts.bytes


def test_append_is_counted_by_each_of_the_counts(tmp_path: Path) -> None:
    of_all, of_topic = AppendCounts(), AppendCounts()
    partition = led(tmp_path / "orders-0", counts=(of_all, of_topic))
    one, other = batch_of(b"a", b"b"), batch_of(b"c")
    expected = 3, len(one.data) + len(other.data)
    appended(partition, one)
    appended(partition, other)
    assert counted(of_all) == counted(of_topic) == expected
    partition.close()


def test_append_in_a_thread_is_counted_once(tmp_path: Path) -> None:
    counts, clock = AppendCounts(), Ticking()
    partition = led(tmp_path / "orders-0", counts=(counts,), clock=clock)
    clock.step = 2 * SLOW_S
    appended(partition, batch_of(b"a"))
    appended(partition, batch_of(b"b"))  # the disk was slow: this one is a job
    assert counts.messages == 2
    partition.close()


def test_append_that_begins_a_segment_is_counted_once(tmp_path: Path) -> None:
    counts, settings = AppendCounts(), LogSettings(fsync=False, segment_bytes=100)
    partition = led(tmp_path / "orders-0", settings, counts=(counts,))
    for value in (b"a" * 60, b"b" * 60):
        appended(partition, batch_of(value))
    assert counts.messages == 2
    partition.close()


def test_refused_batch_is_not_counted(tmp_path: Path) -> None:
    counts = AppendCounts()
    partition = led(tmp_path / "orders-0", counts=(counts,))
    partition.follow(record_of_leader(2))
    assert isinstance(appended(partition, batch_of(b"a")), BatchRefused)
    assert counted(counts) == (0, 0)
    partition.close()


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, 0),
        (ErrorCode.CORRUPT_MESSAGE, 0),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0),
        (ErrorCode.KAFKA_STORAGE_ERROR, 0),
        (ErrorCode.INVALID_RECORD, 1),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 1),
        (ErrorCode.NOT_ENOUGH_REPLICAS, 1),
    ],
)
def test_refusal_counts_as_failed_where_kafka_counts_it(error: ErrorCode, failed: int) -> None:
    counts = AppendCounts()
    counts.refused(error)
    assert counts.failed_produces == failed


def test_batch_out_of_order_is_a_failed_produce(tmp_path: Path) -> None:
    counts = AppendCounts()
    partition = led(tmp_path / "orders-0", counts=(counts,))
    appended(partition, batch_of(b"a", producer_id=7, base_sequence=0))
    assert counts.failed_produces == 0
    refused = appended(partition, batch_of(b"b", producer_id=7, base_sequence=5))
    assert isinstance(refused, BatchRefused)
    assert (counts.failed_produces, counts.messages) == (1, 1)
    partition.close()


def test_reads_of_clients_and_followers_are_counted_apart() -> None:
    counts = AppendCounts()
    counts.fetched(100, of_follower=False)
    counts.fetched(0, of_follower=False)
    counts.fetched(70, of_follower=True)
    assert (counts.fetches, counts.bytes_out, counts.replication_bytes_out) == (3, 100, 70)
