"""Measures commits of the tables of one log (``kwire.spark.table``) with many partitions present,
without Spark: the processor time and the bytes of 100 changes. ``spark_tables`` has the rows.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kwire.message import Message
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import encode_metadata_record
from kwire.uuid import Uuid

_TOPICS, _PARTITIONS, _BROKERS, _FACTOR = 1_010, 100, 30, 3
_CHANGES, _COMMITS = 100, 25
#: A tenth of what a commit took when each rewrote the current state of all partitions.
_CPU_S, _MIB = 0.2, 0.53


def rows(scratch: Path) -> Iterator[dict[str, Any]]:
    """The rows of the bench."""
    from kwire.spark.table.fold import Fold
    from kwire.spark.table.rows import Folded
    from kwire.spark.table.store import Store

    rng, store = random.Random("commits"), Store(str(scratch))
    fold = Fold(store.load())

    def commit(records: Sequence[Message]) -> tuple[float, int]:
        before = {one.name for one in (scratch / "data").iterdir()}
        began = time.process_time()
        fold.take(_rows(records, fold.state.next_offset))
        store.commit(fold.state, fold.folded)
        fold.folded, spent = Folded(), time.process_time() - began
        new = [one for one in (scratch / "data").iterdir() if one.name not in before]
        return spent, sum(map(os.path.getsize, new))

    build_s, _ = commit([one for n in range(_TOPICS) for one in _topic(n, rng)])
    found = [commit([_change(rng) for _ in range(_CHANGES)]) for _ in range(_COMMITS)]
    seconds = statistics.median(one for one, _ in found)
    size = statistics.mean(size for _, size in found) / (1 << 20)
    began = time.process_time()
    Fold(Store(str(scratch)).load())
    yield {
        "what": f"{_CHANGES} changes with {_TOPICS * _PARTITIONS:,} partitions present",
        "unit": "s (p50)",
        "kwire": seconds,
        "ok": seconds < _CPU_S and size < _MIB,
        "notes": (
            f"processor time of a commit, at most {_CPU_S}; {size:.2f} MiB on average, at most"
            f" {_MIB}; {_BROKERS} brokers, factor {_FACTOR}; the build {build_s:.1f} s, loading the"
            f" state {time.process_time() - began:.1f} s"
        ),
    }


def _rows(records: Sequence[Message], at: int) -> list[Any]:
    from kwire.spark.table.rows import Row

    values = [encode_metadata_record(one, one.VERSIONS[-1]) for one in records]
    return [Row(at + n, at + n, value) for n, value in enumerate(values)]


def _topic_id(n: int) -> Uuid:
    return Uuid((n + 1).to_bytes(16, "big"))


def _topic(n: int, rng: random.Random) -> Iterator[Message]:
    yield TopicRecord(name=f"topic-{n}", topic_id=_topic_id(n))
    for index in range(_PARTITIONS):
        replicas = rng.sample(range(_BROKERS), _FACTOR)
        yield PartitionRecord(
            topic_id=_topic_id(n),
            partition_id=index,
            replicas=replicas,
            isr=replicas,
            leader=replicas[0],
        )


def _change(rng: random.Random) -> Message:
    return PartitionChangeRecord(
        topic_id=_topic_id(rng.randrange(_TOPICS)),
        partition_id=rng.randrange(_PARTITIONS),
        leader=rng.randrange(_BROKERS),
    )
