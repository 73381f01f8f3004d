"""The current state in layers: the same as written whole, at a cost of what changed."""

from __future__ import annotations

import os
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyspark", reason="the spark extra is not installed")

import pyarrow as pa
import pyarrow.compute as pc

from kwire.message import Message
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.records import encode_metadata_record
from kwire.spark.table import layers, tiers
from kwire.spark.table.fold import Fold
from kwire.spark.table.layers import living
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Store
from kwire.uuid import Uuid
from tests.kwire.spark.table_rows import contents


def topic_id(n: int) -> Uuid:
    return Uuid(n.to_bytes(16, "big"))


def rows(records: Sequence[Message], at: int) -> list[Row]:
    return [
        Row(at + n, 1000 * (at + n), encode_metadata_record(one, one.VERSIONS[-1]))
        for n, one in enumerate(records)
    ]


def topic(n: int, partitions: int, brokers: int, rng: random.Random) -> list[Message]:
    """A new topic with a replication factor of 3."""
    made: list[Message] = [TopicRecord(name=f"t{n}", topic_id=topic_id(n))]
    for index in range(partitions):
        replicas = rng.sample(range(1, brokers + 1), 3)
        made.append(
            PartitionRecord(
                topic_id=topic_id(n),
                partition_id=index,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
            )
        )
    return made


class Tables:
    """Tables that are written in many commits, and what the last one wrote."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = Store(str(path))
        self.fold = Fold(self.store.load())
        self.bytes, self.rows = Counter[str](), Counter[str]()
        write = Store._write

        def counted(store: Store, file: str, table: pa.Table) -> None:
            write(store, file, table)
            name = os.path.basename(file).partition("-")[0]
            self.bytes[name] += os.path.getsize(f"{store.root}/{file}")
            self.rows[name] += table.num_rows

        monkeypatch.setattr(Store, "_write", counted)

    def commit(self, records: Sequence[Message]) -> None:
        self.bytes.clear()
        self.rows.clear()
        self.fold.take(rows(records, self.fold.state.next_offset))
        self.store.commit(self.fold.state, self.fold.folded)
        self.fold.folded = Folded()

    @property
    def layers(self) -> list[layers.Layer]:
        return self.store.manifest.current["partition"]


def test_commit_costs_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """16 changes in a cluster of 20,000 partitions on 30 brokers."""
    rng = random.Random("cost")
    tables = Tables(tmp_path, monkeypatch)
    tables.commit([one for n in range(1, 201) for one in topic(n, 100, 30, rng)])
    whole_rows, whole_bytes = tables.rows["partitions_current"], tables.bytes["partitions_current"]
    assert whole_rows == 20_000
    written: list[tuple[int, int]] = []
    for _ in range(14):
        changed = [divmod(one, 100) for one in rng.sample(range(20_000), 16)]
        tables.commit(
            [
                PartitionChangeRecord(
                    topic_id=topic_id(n + 1), partition_id=index, leader=rng.randint(1, 30)
                )
                for n, index in changed
            ]
        )
        assert tables.rows["changes"] >= 16
        written.append((tables.rows.total(), tables.bytes.total()))
    # A change, the version that ended, the new one, a mark for the old one; two rows of load.
    assert statistics.median(rows for rows, _ in written) <= 16 * 4 + 2
    # One in twelve commits merges the files of all twelve.
    assert max(rows for rows, _ in written) <= 16 * 4 * 14
    assert max(size for _, size in written) < whole_bytes / 10, (written, whole_bytes)
    assert len(tables.layers) <= 12
    now = living(tables.store.read([one.file]) for one in tables.layers)
    assert now.num_rows == 20_000


@pytest.mark.parametrize("seed", range(3))
def test_layers_hold_the_state_whatever_changes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SMALL", 5)
    monkeypatch.setattr(tiers, "FANOUT", 3)
    rng, tables = random.Random(seed), Tables(tmp_path, monkeypatch)
    alive: list[int] = []
    marked = merges = 0
    for n in range(1, 60):
        records: list[Message] = []
        for _ in range(rng.randint(1, 6)):
            if not alive or rng.random() < 0.3:
                alive.append(len(alive) + 1000 * n + rng.randrange(900))
                records += topic(alive[-1], 4, 9, rng)
            elif rng.random() < 0.25:
                records.append(
                    RemoveTopicRecord(topic_id=topic_id(alive.pop(rng.randrange(len(alive)))))
                )
            else:
                ids, index = topic_id(rng.choice(alive)), rng.randrange(4)
                leader = rng.randint(1, 9)
                records.append(
                    PartitionChangeRecord(topic_id=ids, partition_id=index, leader=leader)
                )
        before = tables.layers if n > 1 else []
        tables.commit(records)
        marked += any(one.marks for one in tables.layers)
        merges += any(0 < one.level < 1000 for one in tables.layers if one not in before)
        stored = Store(str(tmp_path)).state()
        assert contents(stored.image) == contents(tables.fold.state.image)
        assert stored.since == tables.fold.state.since
        held = sum(one.rows + one.marks for one in tables.layers)
        assert held <= max(2 * len(stored.since["partition"]), 5)
    assert marked > 10 and merges > 2


def test_row_and_mark_within_merged_layers_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SMALL", 0)
    tables = Tables(tmp_path, monkeypatch)
    tables.commit(topic(1, 40, 9, random.Random(1)))
    for leader in (4, 5, 6):
        change = PartitionChangeRecord(topic_id=topic_id(1), partition_id=7, leader=leader)
        tables.commit([change])
    assert [(one.rows, one.marks) for one in tables.layers] == [(40, 0), (1, 1), (1, 1), (1, 1)]
    later = tables.layers[1:]
    step = layers.merged(later, 1, [tables.store.read([one.file]) for one in later])
    assert (step.level, step.of) == (1, later)
    assert (step.layer("x").rows, step.layer("x").marks) == (1, 1)
    now = living(tables.store.read([one.file]) for one in tables.layers)
    assert now.num_rows == 40
    assert now.filter(pc.field("partition") == 7).column("leader").to_pylist() == [6]
