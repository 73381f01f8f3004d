"""Makes tables of the view topics and of the audit topic, by Spark's own functions.

from kwire.spark.topics import audit, latest, read_topic
latest(read_topic(spark, "localhost:9092", "__cluster_metadata.topics")).show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kwire.spark.source.topic import FORMAT, register_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AUDIT_TOPIC: Final = "__cluster_metadata_audit"
_AUDIT: Final = (
    "time TIMESTAMP, principal STRING, host STRING, client_id STRING, api STRING, version INT,"
    " token_authenticated BOOLEAN, listener STRING,"
    " forwarder STRUCT<principal: STRING, host: STRING, client_id: STRING>,"
    " node_id INT, leader_epoch INT, `offset` BIGINT, last_offset BIGINT, records INT,"
    " resources ARRAY<STRUCT<type: STRING, name: STRING>>, resources_in_all INT,"
    " not_recorded_before INT"
)


def read_topic(
    spark: SparkSession, server: str, topic: str = AUDIT_TOPIC, **options: str
) -> DataFrame:
    """The records of a view topic or the audit topic that ``server`` has now: ``partition``,
    ``offset``, ``timestamp``, ``key``, ``value``, ``headers``; key and value are text, headers as
    those of Spark's own Kafka source.

    ``options`` are those of the client, such as ``**{"kafka.security.protocol": "SASL_SSL"}``.
    """
    register_topic(spark)
    rows = spark.read.format(FORMAT).option("bootstrap.servers", server).option("topic", topic)
    return rows.options(**options).load()


def latest(rows: DataFrame, columns: str | None = None) -> DataFrame:
    """The present state in the records of a view topic: the last ``value`` of each ``key`` that is
    not deleted. With ``columns``, as ``kwire views --schema VIEW --spark`` prints them, a row of
    these columns for each entity.

    ``rows`` can also be those of Spark's own Kafka source.
    """
    last = rows.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    text = last.where("value IS NOT NULL").select(
        F.col("key").cast("string"), F.col("value").cast("string")
    )
    if columns is None:
        return text
    return text.select(F.from_json("value", columns).alias("row")).select("row.*")


def audit(rows: DataFrame) -> DataFrame:
    """The records of the audit topic as columns: the client of each change, and the offsets that it
    wrote, ``offset`` to ``last_offset``. ``rows`` can also be those of Spark's own Kafka source.
    """
    change = F.from_json(F.col("value").cast("string"), _AUDIT).alias("change")
    return rows.select(change).select("change.*")
