"""A partition that this node leads for followers: what consumers see, and who waits for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import TopicRules
from gateway.broker.replica.follower_state import Contact
from gateway.ports.replicas import Appended
from gateway.ports.services import Isolation
from gateway.sources.log_reader import content
from kwire.protocol import ErrorCode
from kwire.records import decode_batches
from tests.gateway.sources.data_partitions import (
    batch_of,
    led,
    partition,
    record,
    record_of_leader,
    settle,
)

PEER = 2


def replicated(directory: Path, **more: Any) -> Any:
    """A partition with a follower that is in sync."""
    one = partition(directory / "t-0", **more)
    one.lead(record(1, 1, PEER))
    settle(one)
    return one


def fetched(one: Any, offset: int) -> None:
    """The follower has fetched from ``offset``."""
    one.leader.on_fetch(PEER, 100, offset, 0, Contact(0.0))
    one._publish()


def append(one: Any, *values: bytes, until_committed: bool = True, **header: Any) -> list[Any]:
    """Where the outcome of the append comes."""
    outcomes: list[Any] = []
    batch = batch_of(*values, **header)
    verification = one.begin_verification(batch)
    one.append(batch, outcomes.append, verification, until_committed=until_committed)
    settle(one)
    return outcomes


def offsets(read: Any) -> list[int]:
    return [one.offset for batch in decode_batches(content(read.chunks)) for one in batch.records]


def test_consumers_see_what_is_committed_and_replicas_the_whole_log(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(one, value, until_committed=False)
    assert (one.high_watermark, one.end_offset) == (0, 3)
    assert offsets(one.read(0, 1000)) == [] and one.bytes_available(0, 1000) == 0
    assert offsets(one.read(0, 1000, Isolation.LOG_END)) == [0, 1, 2]
    fetched(one, 2)
    assert (one.high_watermark, one.visible_end(Isolation.TXN_COMMITTED)) == (2, 2)
    assert offsets(one.read(0, 1000)) == [0, 1] and offsets(one.read(3, 1000)) == []
    read, aborted = one.read_committed(0, 1000)
    assert offsets(read) == [0, 1] and aborted == ()
    assert one.bytes_available(0, 1000) == one.bytes_available(0, 1000, Isolation.TXN_COMMITTED)
    assert one.bytes_available(2, 1) == 0 and one.bytes_available(2, 1, Isolation.LOG_END) == 1
    one.close()


def test_acknowledgement_of_all_comes_with_the_high_watermark(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    first, second = append(one, b"a", b"b"), append(one, b"c")
    at_once = append(one, b"d", until_committed=False)
    assert first == second == [] and at_once[0].base_offset == 3
    fetched(one, 2)
    assert first == [Appended(0, -1, 0)] and second == []
    fetched(one, 4)
    assert second == [Appended(2, -1, 0)]
    one.close()


def test_batch_that_comes_again_waits_as_the_first_time(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    sequence: Any = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    first, again = append(one, b"a", **sequence), append(one, b"a", **sequence)
    assert first == again == [] and one.end_offset == 1
    fetched(one, 1)
    assert first == again == [Appended(0, -1, 0)]
    one.close()


def test_leader_that_resigns_has_committed_nothing_for_who_waits(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    outcomes = append(one, b"a")
    one.follow(record_of_leader(2))
    (outcome,) = outcomes
    assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one.leader is None and not one.is_leader
    one.close()


def test_too_few_replicas_refuse_what_is_to_be_committed(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    one._rules = lambda: TopicRules(min_insync_replicas=2)
    outcomes = append(one, b"a")
    one.lead(record(1, 1, PEER, isr=[1], partition_epoch=2))
    assert outcomes == []  # nothing is committed by fewer than two
    (refused,) = append(one, b"b")
    assert isinstance(refused, BatchRefused) and refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "t-0" in refused.message
    assert isinstance(append(one, b"c", until_committed=False)[0], Appended)
    one.close()


def test_transaction_is_open_for_consumers_until_its_marker_is_committed(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    append(one, b"a", until_committed=False)
    append(
        one,
        b"b",
        until_committed=False,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    one.append_marker(7, 0, True, 0, 1, lambda outcome: None)
    settle(one)
    assert one.end_offset == 3
    fetched(one, 2)
    assert (one.high_watermark, one.visible_end(Isolation.TXN_COMMITTED)) == (2, 1)
    fetched(one, 3)
    assert (one.high_watermark, one.visible_end(Isolation.TXN_COMMITTED)) == (3, 3)
    one.close()


def test_waiting_readers_hear_of_records_that_are_not_committed(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    news: list[tuple[int, int]] = []
    one.on_advance(lambda: news.append((one.end_offset, one.high_watermark)))
    append(one, b"a", until_committed=False)
    fetched(one, 1)
    assert news == [(1, 0), (1, 1)]
    one.close()


def test_retention_keeps_what_is_not_committed(tmp_path: Path) -> None:
    one = replicated(tmp_path)
    append(one, b"a", until_committed=False)
    one.clean(10**15)
    settle(one)
    assert one.stored.deleted == [] and one.log_start_offset == 0
    fetched(one, 1)
    one.clean(10**15)
    settle(one)
    assert one.stored.deleted and one.log_start_offset == 1
    one.close()


def test_sole_replica_commits_what_it_writes(tmp_path: Path) -> None:
    one = led(tmp_path / "t-0")
    assert append(one, b"a") == [Appended(0, -1, 0)] and one.high_watermark == 1
    one.close()
