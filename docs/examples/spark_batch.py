"""The whole metadata topic in one batch query: what is in it, and every topic with its number of
partitions.

spark-submit --jars $(kwire spark jars) docs/examples/spark_batch.py localhost:9092
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kwire.spark import decode, kafka_options, typed, without


def main(bootstrap: str) -> None:
    spark = SparkSession.builder.appName("metadata topic").getOrCreate()
    rows = (
        spark.read.format("kafka")
        .options(**kafka_options(bootstrap, start="earliest", end="latest"))
        .load()
    )
    decode(without(rows, "NO_OP_RECORD")).orderBy("offset").show(20, truncate=100)
    counts(rows).show(100, truncate=False)
    topics(rows).show(100, truncate=False)


def counts(rows: DataFrame) -> DataFrame:
    """How many records of each type and version there are."""
    return decode(rows).groupBy("type", "version").count().orderBy("type", "version")


def topics(rows: DataFrame) -> DataFrame:
    """Every topic that still is: name, id, and number of partitions."""
    created = typed(rows, "TopicRecord").select("record.name", "record.topicId")
    removed = typed(rows, "RemoveTopicRecord").select("record.topicId")
    partitions = typed(rows, "PartitionRecord").groupBy("record.topicId")
    numbers = partitions.agg(F.countDistinct("record.partitionId").alias("partitions"))
    return (
        created.join(removed, "topicId", "left_anti")
        .join(numbers, "topicId", "left")
        .orderBy("name")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
