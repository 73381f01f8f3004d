"""Options for Spark's Kafka source: the spelling that Spark documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.options import kafka_options


def test_the_least() -> None:
    assert kafka_options("a:1,b:2") == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "subscribe": "__cluster_metadata",
    }


def test_by_pattern_and_by_assignment() -> None:
    assert (
        kafka_options("a:1", by="subscribePattern", topic="__cluster.*")["subscribePattern"]
        == "__cluster.*"
    )
    assert json.loads(kafka_options("a:1", by="assign")["assign"]) == {"__cluster_metadata": [0]}


@pytest.mark.parametrize(
    ("start", "name", "value"),
    [
        ("earliest", "startingOffsets", "earliest"),
        ("latest", "startingOffsets", "latest"),
        (0, "startingOffsets", '{"__cluster_metadata": {"0": 0}}'),
        (17, "startingOffsets", '{"__cluster_metadata": {"0": 17}}'),
        (datetime(2026, 11, 21, 5, 0, 0, 123_999, UTC), "startingTimestamp", "1795237200123"),
        (
            datetime(2026, 11, 21, 7, 0, tzinfo=timezone(timedelta(hours=2))),
            "startingTimestamp",
            "1795237200000",
        ),
    ],
)
def test_start_is_translated_to_the_option_of_spark(start: Any, name: str, value: str) -> None:
    assert kafka_options("a:1", start=start)[name] == value


def test_end_of_a_batch() -> None:
    assert kafka_options("a:1", end=9)["endingOffsets"] == '{"__cluster_metadata": {"0": 9}}'
    assert (
        kafka_options("a:1", end=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))["endingTimestamp"]
        == "1000"
    )


def test_everything_else_by_its_own_name() -> None:
    more: dict[str, Any] = {"kafka.max.poll.records": 5000, "minPartitions": 2}
    options = kafka_options("a:1", max_offsets_per_trigger=500, fail_on_data_loss=False, **more)
    assert options["maxOffsetsPerTrigger"] == "500"
    assert options["failOnDataLoss"] == "false"
    assert options["minPartitions"] == "2"
    assert options["kafka.max.poll.records"] == "5000"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"by": "topic"}, "by is subscribe"),
        ({"start": "first"}, "'first'"),
        ({"start": -2}, "from 0, not -2"),
        ({"start": datetime(2026, 1, 1)}, "no time zone"),
        ({"start": 5, "by": "subscribePattern"}, "not subscribePattern"),
        ({"end": "earliest"}, "cannot end"),
        ({"max_offsets_per_trigger": 0}, "from 1, not 0"),
    ],
)
def test_refused_before_spark_sees_it(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kafka_options("a:1", **bad)
