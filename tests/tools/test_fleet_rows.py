"""The judge tells where tables differ from view topics: rows twice, missing, different."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.fleet.views import VIEWS
from tools.fleet_rows import ViewRecord, faults

_VALUE = {
    "name": "orders",
    "id": "AAAAAAAAAAAAAAAAAAAAAQ",
    "partitions": 2,
    "replicationFactor": 1,
    "configs": {"retention.ms": "1", "cleanup.policy": "compact"},
}


def record(offset: int, value: dict[str, Any] | None) -> ViewRecord:
    return ViewRecord("c", offset, offset * 1000, {"name": "orders"}, value)


def row(of: ViewRecord, **changed: Any) -> dict[str, Any]:
    """The row of a record, as Arrow gives it: a map is a list of pairs."""
    value: dict[str, Any] = dict.fromkeys(VIEWS["topics"].values) | dict(of.value or {})
    if value["configs"] is not None:
        value["configs"] = list(value["configs"].items())[::-1]
    own = {
        "cluster_id": of.cluster,
        "offset": of.offset,
        "timestamp": datetime.fromtimestamp(of.timestamp_ms / 1000, UTC),
        "deleted": of.value is None,
    }
    return {**value, **of.key, **own, **changed}


RECORDS = [record(1, _VALUE), record(2, {**_VALUE, "partitions": 3}), record(3, None)]
RIGHT = {
    "topics_history": [row(one) for one in RECORDS],
    "topics_state": [row(RECORDS[-1])],
}


def found(**tables: Sequence[dict[str, Any]]) -> list[str]:
    return list(faults({"topics": RECORDS}, {**RIGHT, **tables}.__getitem__))


def test_tables_with_each_record_once_have_no_fault() -> None:
    assert found() == []


def test_row_that_is_there_twice_is_told() -> None:
    [told] = found(topics_history=[*RIGHT["topics_history"], row(RECORDS[0])])
    assert told.startswith("topics_history: 1 more than once")


def test_row_that_is_missing_is_told() -> None:
    [told] = found(topics_history=RIGHT["topics_history"][1:])
    assert told.startswith("topics_history: 1 missing")


def test_row_that_is_different_is_missing_and_not_in_the_view_topic() -> None:
    different = row(RECORDS[0], configs=[("retention.ms", "2")])
    told = found(topics_history=[different, *RIGHT["topics_history"][1:]])
    assert [one.split(": ")[1].split(" ", 1)[1] for one in told] == [
        "missing",
        "not in the view topic",
    ]


def test_state_with_an_earlier_record_is_told() -> None:
    told = found(topics_state=[row(RECORDS[1])])
    assert len(told) == 2 and all(one.startswith("topics_state: 1 ") for one in told)
