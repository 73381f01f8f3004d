"""New consumers look for the newest acknowledged record while brokers fail."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.waiting import until
from tools.broker_kills.writers import IdempotentWriter
from tools.partition_checker import fresh_reads
from tools.partition_checker.fresh_reads import FreshReads

#: The newest acknowledged record is number 28 at offset 7.
_NEWEST = {0: (7, 28)}
_LEADER = 2


class Broker:
    """Answers as leader :data:`_LEADER` that its log ends at ``end``, or not at all; each record
    has the value ``value``.
    """

    def __init__(self, end: int | None, value: bytes = b"28") -> None:
        self.end = end
        self.value_there = value
        self.asked = 0

    def __call__(self, settings: Mapping[str, Any]) -> Broker:
        self.asked += 1
        return self

    def list_topics(self, topic: str, timeout_s: float) -> Any:
        partitions = {0: SimpleNamespace(leader=_LEADER)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def get_watermark_offsets(self, where: Any, timeout_s: float, *, cached: bool) -> Any:
        if self.end is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return 0, self.end

    def assign(self, partitions: Any) -> None:
        pass

    def poll(self, timeout_s: float) -> Any:
        return SimpleNamespace(error=lambda: None, offset=lambda: 7, value=lambda: self.value_there)

    def close(self) -> None:
        pass


def read(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, deposed: Set[int] = frozenset()
) -> FreshReads:
    """Read twice from a broker."""
    monkeypatch.setattr(fresh_reads, "Consumer", broker)
    monkeypatch.setattr(fresh_reads, "_PAUSE_S", 0.0)
    writer: Any = SimpleNamespace(topic="t", newest=_NEWEST)
    reads = FreshReads("127.0.0.1:1", writer, lambda: deposed)
    reads.start()
    until(lambda: broker.asked >= 2, "it reads again and again")
    reads.end()
    return reads


def test_leader_that_has_what_was_acknowledged_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = read(monkeypatch, Broker(8))
    assert reads.count and reads.failed == []


def test_leader_that_ends_before_what_was_acknowledged_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = read(monkeypatch, Broker(7))
    assert reads.failed and "leader 2 said that the log ends at 7" in reads.failed[0]


def test_deposed_leader_may_end_before_and_not_have_another_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert read(monkeypatch, Broker(7), {_LEADER}).failed == []
    assert "had 29 there, not 28" in read(monkeypatch, Broker(8, b"29"), {_LEADER}).failed[0]


def test_read_without_an_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = read(monkeypatch, Broker(None))
    assert (reads.count, reads.failed) == (0, [])


def test_writer_keeps_the_newest_offset_whatever_is_acknowledged_last() -> None:
    writer = Numbers("127.0.0.1:1", "t", 0.0)
    for number, offset in ((4, 1), (8, 3), (6, 2), (10, None)):
        message = SimpleNamespace(partition=lambda: 0, offset=lambda offset=offset: offset)
        writer._on(number, None, message)
    assert writer.newest == {0: (3, 8)}
    assert writer.acknowledged == {0: {1: 4, 3: 8, 2: 6}} and writer.elsewhere == {0: {10}}


class Numbers(IdempotentWriter):
    """Writes nothing in these tests."""

    def record(self, number: int) -> tuple[bytes | None, bytes | None]:
        return None, b"%d" % number

    def violations(self) -> list[str]:
        return self.failed

    def counts(self) -> dict[str, int]:
        return {}
