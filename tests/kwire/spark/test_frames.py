"""The functions on DataFrames, in a real Spark session, without Kafka: rows of the shape that the
Kafka source gives.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.shared import mistyped

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.errors import UnknownApi
from kwire.messages.config_record import ConfigRecord
from kwire.messages.no_op_record import NoOpRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.user_scram_credential_record import UserScramCredentialRecord
from kwire.records import metadata_record_name
from kwire.spark import decode, only, typed, without
from kwire.uuid import Uuid
from tests.kwire.spark.frames import every_record, frame
from tests.kwire.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "topic string, partition int, offset bigint, timestamp timestamp, value binary"
pytestmark = pytest.mark.interop

NOW = datetime(2026, 11, 21, 5, 0, 0, 123_000, UTC)
NO_OP = frame(NoOpRecord(), 0)
PARTITION = frame(
    PartitionRecord(partition_id=3, topic_id=Uuid(b"\1" * 16), replicas=[1, 2], leader=1), 1
)


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session(kafka=False)


def rows(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    data = [
        ("__cluster_metadata", 0, offset, NOW, value and bytearray(value))
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(data, SCHEMA)


def test_every_record_type_decoded(spark: SparkSession) -> None:
    records = every_record(each=1)
    found = (
        decode(rows(spark, [value for _, _, value in records]), secrets=True)
        .orderBy("offset")
        .collect()
    )
    assert len(found) == len(records)
    for row, (message, version, _) in zip(found, records, strict=True):
        assert (row.type, row.version, row.error) == (
            metadata_record_name(type(message)),
            version,
            None,
        )
        assert json.loads(row.data) == message.to_json(version)
        assert row.timestamp.timestamp() == NOW.timestamp()


def test_decode_adds_entity_key_and_the_epoch_of_the_source(spark: SparkSession) -> None:
    df = rows(spark, [NO_OP, PARTITION, None])
    found = decode(df).orderBy("offset").collect()
    assert [(row.entity, row.key) for row in found] == [
        ("no_op", None),
        ("partition", "AQEBAQEBAQEBAQEBAQEBAQ:3"),
        (None, None),
    ]
    assert {row.epoch for row in found} == {None}
    found = (
        decode(df.selectExpr("*", "cast(offset as bigint) + 7 as epoch"))
        .orderBy("offset")
        .collect()
    )
    assert [row.epoch for row in found] == [7, 8, 9]
    with pytest.raises(ValueError, match="column 'key' would be there twice"):
        decode(df.selectExpr("*", "value as key"), keep=["key"])


@pytest.mark.parametrize("name", ["PartitionRecord", "PARTITION_RECORD"])
def test_typed_columns_are_ready_for_sql(spark: SparkSession, name: str) -> None:
    found = typed(rows(spark, [NO_OP, PARTITION, None]), name, keep=["partition"]).select(
        "offset", "version", "record.*", "error", "partition"
    )
    types = dict(found.dtypes)
    assert (
        types["replicas"] == "array<int>"
        and types["topicId"] == "string"
        and types["leaderEpoch"] == "int"
    )
    (row,) = found.collect()
    assert (row.offset, row.version, row.partitionId, row.topicId) == (
        1,
        1,
        3,
        "AQEBAQEBAQEBAQEBAQEBAQ",
    )
    assert (list(row.replicas), row.leader, row.error, row.partition) == ([1, 2], 1, None, 0)
    assert row.eligibleLeaderReplicas is None


def test_every_record_type_has_columns(spark: SparkSession) -> None:
    records = every_record(each=1)
    df = rows(spark, [value for _, _, value in records])
    for cls in {type(message): None for message, _, _ in records}:
        found = typed(df, cls.NAME).orderBy("offset").collect()
        expected = [(version, message) for message, version, _ in records if type(message) is cls]
        assert [(row.version, row.error) for row in found] == [
            (version, None) for version, _ in expected
        ]
        assert [f.json for f in cls.fields()] == (
            list(found[0].record.asDict()) if cls.fields() else []
        )


def test_filters_run_in_the_jvm_and_lose_nothing_damaged(spark: SparkSession) -> None:
    damaged = b"\x02\x14\x00"
    df = rows(spark, [NO_OP, PARTITION, damaged, None, b""])
    kept = without(df, "NO_OP_RECORD")
    assert [row.offset for row in kept.orderBy("offset").collect()] == [1, 2, 3, 4]
    assert [
        row.offset for row in only(df, "NoOpRecord", "PartitionRecord").orderBy("offset").collect()
    ] == [0, 1]
    assert [row.offset for row in without(df).orderBy("offset").collect()] == [0, 1, 2, 3, 4]
    assert only(df).count() == 0
    plan = kept._jdf.queryExecution().executedPlan().toString()
    assert "substring(value" in plan and "Python" not in plan


def test_damaged_values_are_rows_unless_fail_fast(spark: SparkSession) -> None:
    df = rows(spark, [PARTITION, PARTITION[:-3], None])
    found = decode(df, keep=["value"]).orderBy("offset").collect()
    assert [row.error is None for row in found] == [True, False, False]
    assert bytes(found[1].value) == PARTITION[:-3]
    with pytest.raises(Exception, match="the value at offset 1"):
        decode(df, mode="FAILFAST").collect()
    with pytest.raises(Exception, match="the value at offset 1"):
        typed(df, "PartitionRecord", mode="FAILFAST").collect()


def test_secrets_are_hidden_without_show_secrets(spark: SparkSession) -> None:
    scram = UserScramCredentialRecord(
        name="eve", salt=b"salt", stored_key=b"stored", server_key=b"server"
    )
    config = ConfigRecord(
        resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2"
    )
    df = rows(spark, [frame(scram, 0), frame(config, 0)])
    hidden = [json.loads(row.data) for row in decode(df).orderBy("offset").collect()]
    assert (hidden[0]["name"], hidden[0]["storedKey"]) == ("eve", "(redacted)")
    assert (hidden[1]["name"], hidden[1]["value"]) == ("ssl.key.password", "(redacted)")
    assert (
        json.loads(decode(df, secrets=True).orderBy("offset").collect()[1].data)["value"]
        == "hunter2"
    )
    assert (
        bytes(typed(df, "UserScramCredentialRecord").select("record.serverKey").collect()[0][0])
        == b"(redacted)"
    )
    assert (
        typed(df, "ConfigRecord", secrets=True).select("record.value").collect()[0][0] == "hunter2"
    )


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda df: decode(df.drop("timestamp")), ValueError, "no column 'timestamp'"),
        (lambda df: decode(df, keep=["key"]), ValueError, "no column 'key'"),
        (lambda df: decode(df, keep=["offset"]), ValueError, "'offset' would be there twice"),
        (
            lambda df: decode(df, keep=["topic", "topic"]),
            ValueError,
            "'topic' would be there twice",
        ),
        (lambda df: decode(df, mode=mistyped("DROPMALFORMED")), ValueError, "DROPMALFORMED"),
        (lambda df: typed(df, "FetchRequest"), UnknownApi, "FetchRequest"),
        (lambda df: without(df, "NOOP"), UnknownApi, "NOOP"),
    ],
)
def test_refused_before_anything_runs(
    spark: SparkSession, call: Any, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(rows(spark, [NO_OP]))
