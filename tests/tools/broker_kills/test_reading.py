"""A topic is read to the end of each partition; the files say in which session of its producer a
record was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kwire.records import Record, encode_batch
from tools.broker_kills import reading
from tools.broker_kills.judge import Kept, Numbered, Session
from tools.broker_kills.reading import PARTITIONS, numbered, records


def batch(base: int, *values: bytes, epoch: int) -> bytes:
    """A batch of producer 7."""
    records = [Record(offset=base + at, timestamp=5, value=one) for at, one in enumerate(values)]
    return encode_batch(records, producer_id=7, producer_epoch=epoch, base_sequence=0)


def test_records_have_the_session_of_their_batches_in_every_segment(tmp_path: Path) -> None:
    first, second = batch(0, b"1", b"5", epoch=0), batch(2, b"5", epoch=1)
    (tmp_path / f"{0:020d}.log").write_bytes(first + second)
    (tmp_path / f"{3:020d}.log").write_bytes(batch(3, b"9", b"13", epoch=1))
    kept = [Kept(at, None, value) for at, value in enumerate(["1", "5", "5", "9", "13"])]
    assert numbered(kept, tmp_path) == [
        Numbered(0, 1, Session(7, 0)),
        Numbered(1, 5, Session(7, 0)),
        Numbered(2, 5, Session(7, 1)),
        Numbered(3, 9, Session(7, 1)),
        Numbered(4, 13, Session(7, 1)),
    ]


@dataclass(frozen=True)
class Polled:
    """A message as librdkafka gives it: a record, or an error of a partition."""

    of: int
    at: int = -1
    code: int | None = None

    def error(self) -> KafkaError | None:
        return None if self.code is None else KafkaError(self.code)

    def partition(self) -> int:
        return self.of

    def offset(self) -> int:
        return self.at

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d" % self.at


class PolledConsumer:
    """Gives what the test says, then nothing."""

    def __init__(self, messages: Iterator[Polled | None]) -> None:
        self._messages = messages

    def __call__(self, settings: Mapping[str, Any]) -> PolledConsumer:
        return self

    def assign(self, partitions: Any) -> None:
        pass

    def poll(self, timeout_s: float) -> Polled | None:
        return next(self._messages, None)

    def close(self) -> None:
        pass


def polled(monkeypatch: pytest.MonkeyPatch, *messages: Polled | None) -> None:
    monkeypatch.setattr(reading, "Consumer", PolledConsumer(iter(messages)))


ENDS = [Polled(partition, code=KafkaError._PARTITION_EOF) for partition in range(PARTITIONS)]


def test_reading_ends_at_the_end_of_each_partition_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Polled(1, code=KafkaError._ALL_BROKERS_DOWN)
    polled(monkeypatch, Polled(0, 7), broken, None, *ENDS[:1], *ENDS[2:], Polled(1, 3), ENDS[1])
    assert records("127.0.0.1:1", "t") == {0: [Kept(7, None, "7")], 1: [Kept(3, None, "3")]}


def test_reading_that_never_ends_says_which_partitions_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "CLIENT_S", 0.0)
    polled(monkeypatch)
    with pytest.raises(TimeoutError, match=r"t cannot be read to its end: \[\] are"):
        records("127.0.0.1:1", "t")
