"""Compacts a partition as the cleaner's task does, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gateway.broker.produce.validation import ProducedBatch
from gateway.log.cleaner.cleaner import Cleaner
from gateway.log.files.disk import Disk
from gateway.log.partition.cleanup_settings import CleanupSettings
from gateway.sources.partition_compaction import Plan
from kwire.records import Record, encode_batch
from tests.gateway.broker.produce.batches import check
from tests.gateway.sources.data_partitions import SETTINGS, settle

#: A topic that is compacted as soon as there is anything to do.
COMPACT = CleanupSettings(deletes=False, compacts=True, min_cleanable_ratio=0.0)
SMALL = replace(SETTINGS, segment_bytes=200, cleanup=COMPACT, retention_ms=-1)
MEMORY = 1 << 20


def keyed(
    *pairs: tuple[bytes | None, bytes | None], timestamp: int = 1000, **header: Any
) -> ProducedBatch:
    """A batch of records with these keys and values."""
    records = [
        Record(offset=offset, timestamp=timestamp, key=key, value=value)
        for offset, (key, value) in enumerate(pairs)
    ]
    return check(encode_batch(records, **header), now_ms=timestamp)


def planned(one: Any, now_ms: int) -> Plan | None:
    """The compaction that is due."""
    plans: list[Plan | None] = []
    one.compaction.plan(now_ms, plans.append)
    settle(one)
    return plans[0]


def steps(one: Any, made: Plan, memory: int = MEMORY, disk: Disk | None = None) -> Iterator[bool]:
    """Carry a plan out; yield, after each group, whether the log took the new segment."""
    cleaner = Cleaner(made.compaction, disk or Disk(fsync=False), memory)
    for _ in cleaner.map_keys():
        pass
    for group in cleaner.groups:
        for _ in cleaner.clean(group):
            pass
        taken: list[bool | None] = []
        one.compaction.take(made, [segment.base_offset for segment in group], taken.append)
        settle(one)
        yield bool(taken[0])
        if not taken[0]:
            return
    one.compaction.note(cleaner.end, lambda done: None)
    settle(one)


def compact(one: Any, now_ms: int = 10**6, memory: int = MEMORY, disk: Disk | None = None) -> int:
    """Compact until nothing is due; return the number of rounds."""
    rounds = 0
    while (made := planned(one, now_ms)) is not None:
        assert all(steps(one, made, memory, disk))
        rounds += 1
        assert rounds < 1000, "each round makes progress"
    return rounds
