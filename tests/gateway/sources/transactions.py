"""Transactions on a partition, and what a reader of committed records makes of it."""

from __future__ import annotations

import random
from typing import Any

from gateway.broker.produce.refusal import BatchRefused
from gateway.ports.replicas import Appended
from gateway.ports.services import Isolation
from gateway.sources.data_partition import DataPartition
from gateway.sources.log_reader import content
from kwire.records import decode_batches, decode_control_record
from tests.gateway.sources.data_partitions import batch_of, settle


def produce(
    one: DataPartition, producer: int, sequence: int, *values: bytes, epoch: int = 0, **more: Any
) -> Appended | BatchRefused:
    """Append a batch that the coordinator has agreed to."""
    more.setdefault("is_transactional", True)
    batch = batch_of(
        *values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more
    )
    outcomes: list[Appended | BatchRefused] = []
    asked = one.begin_verification(batch) if more["is_transactional"] else None
    one.append(batch, outcomes.append, asked)
    settle(one)
    (outcome,) = outcomes
    return outcome


def end(
    one: DataPartition, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 1
) -> Appended | BatchRefused:
    """Append a marker."""
    outcomes: list[Appended | BatchRefused] = []
    one.append_marker(producer, epoch, commit, coordinator, 0, outcomes.append)
    settle(one)
    (outcome,) = outcomes
    return outcome


def stable(one: DataPartition) -> int:
    """The last stable offset."""
    return one.visible_end(Isolation.TXN_COMMITTED)


def committed(one: DataPartition, offset: int | None = None, most: int = 1) -> list[bytes | None]:
    """The values that a consumer of committed records returns, which reads ``most`` bytes at a time
    and leaves out records as Java's does (``CompletedFetch.nextFetchedRecord``).
    """
    values: list[bytes | None] = []
    at = one.log_start_offset if offset is None else offset
    while True:
        read, named = one.read_committed(at, most)
        data = content(read.chunks)
        read.release()
        if not data:
            return values
        waiting = sorted(named, key=lambda each: each.first_offset)
        aborted: set[int] = set()
        for batch in decode_batches(data):
            while waiting and waiting[0].first_offset <= batch.header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            if batch.header.is_control:
                if decode_control_record(batch.records[0]).name == "ABORT":
                    aborted.discard(batch.header.producer_id)
            elif not (batch.header.is_transactional and batch.header.producer_id in aborted):
                values += [record.value for record in batch.records if record.offset >= at]
            at = batch.header.next_offset


class Model:
    """A random load of transactions, and what committed readers have to see of it."""

    def __init__(self, seed: int) -> None:
        self._rand = random.Random(seed)
        self._sequences: dict[int, int] = {}
        self.open: dict[int, list[tuple[int, bytes]]] = {}
        self.committed: list[tuple[int, bytes]] = []  # offset and value
        self._count = 0

    def step(self, one: DataPartition) -> None:
        """Append a batch of a producer, or the marker of one."""
        producer = self._rand.randrange(6)
        if producer in self.open and self._rand.random() < 0.35:
            commit = self._rand.random() < 0.5
            outcome = end(one, producer, commit=commit)
            assert isinstance(outcome, Appended)
            records = self.open.pop(producer)
            if commit:
                self.committed += records
            return
        is_transactional = producer in self.open or producer != 0
        sequence = self._sequences.get(producer, 0)
        values = [b"%d" % (self._count + at) for at in range(self._rand.randint(1, 3))]
        self._count += len(values)
        self._sequences[producer] = sequence + len(values)
        outcome = produce(one, producer, sequence, *values, is_transactional=is_transactional)
        assert isinstance(outcome, Appended), outcome
        records = list(enumerate(values, outcome.base_offset))
        if is_transactional:
            self.open.setdefault(producer, []).extend(records)
        else:
            self.committed += records

    def check(self, one: DataPartition) -> None:
        """Compare what readers of the partition see."""
        first = min((records[0][0] for records in self.open.values()), default=one.high_watermark)
        assert stable(one) == first
        expected = [value for offset, value in sorted(self.committed) if offset < first]
        assert committed(one) == expected
        assert committed(one, most=300) == expected
