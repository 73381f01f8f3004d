"""Rows of many partitions at once equal those of one by one."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

if os.environ.get("KWIRE_INTEROP") != "require":
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra 'spark' has it)")

from kwire.messages.partition_record import PartitionRecord
from kwire.spark.table.arrow import changes_table
from kwire.spark.table.fold import Fold
from kwire.spark.table.partitions import Partitions
from kwire.spark.table.seen import fields_text, shown
from kwire.uuid import Uuid
from tests.kwire.spark.table_rows import rows_of
from tests.shared import needs_shared

NAMES = ("orders", 'a "quoted" name', "\u00fcber\n", None)


def any_record(rng: random.Random) -> PartitionRecord:
    def numbers() -> list[int]:
        return rng.choices(range(-1, 4), k=rng.randint(0, 3))

    return PartitionRecord(
        topic_id=Uuid(bytes([rng.randint(0, 3)]) * 16),
        partition_id=rng.choice([0, 7, (1 << 31) - 1]),
        replicas=numbers(),
        isr=numbers(),
        removing_replicas=numbers(),
        adding_replicas=numbers(),
        leader=rng.randint(-1, 3),
        leader_recovery_state=rng.choice([0, 1, 9]),
        leader_epoch=rng.randint(0, 9),
        partition_epoch=rng.randint(0, 9),
        directories=[Uuid(bytes([n]) * 16) for n in numbers() if n >= 0],
        eligible_leader_replicas=rng.choice([None, [], [1], [2, 1]]),
        last_known_elr=rng.choice([None, [], [3]]),
    )


def as_columns(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "leaderRecoveryState": str(fields["leaderRecoveryState"])}


@pytest.mark.parametrize("count", [0, 1, 500])
def test_columns_and_json_are_those_of_each_record(count: int) -> None:
    rng = random.Random(count)
    records = [any_record(rng) for _ in range(count)]
    topics = [rng.choice(NAMES) for _ in records]
    expected = [shown(one, topic) for one, topic in zip(records, topics, strict=True)]
    found = Partitions(records, topics)
    assert found.texts().to_pylist() == [fields_text(one) for one in expected]
    columns = {name: column.to_pylist() for name, column in found.columns().items()}
    assert [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ] == [as_columns(one) for one in expected]


@needs_shared
def test_changes_show_what_each_shows(logs: Any) -> None:
    fold = Fold()
    fold.take(rows_of(logs("p-quorum-short") / "nodes" / "101" / "__cluster_metadata-0"))
    table = changes_table(fold.folded.changes)
    for side in ("before", "after"):
        assert table.column(side).to_pylist() == [getattr(c, side) for c in fold.folded.changes]
    assert {c.entity for c in fold.folded.changes} > {"partition", "topic", "config"}
