"""Bring a table of decoded records up to date and end: for a job that runs every few minutes.

    spark-submit --jars $(kwire spark jars) \
        docs/examples/spark_tables.py localhost:9092 /data/metadata

Each run reads what is new since the last one, in micro-batches of a bounded size, and appends it to
Parquet files. Offsets and files are committed together, so that no record is missing or there
twice, wherever a run was cut off.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from kwire.spark import decode, kafka_options


def main(bootstrap: str, directory: str) -> None:
    spark = SparkSession.builder.appName("metadata table").getOrCreate()
    update(spark, bootstrap, directory)
    table(spark, directory).groupBy("type").count().show(100, truncate=False)


def update(spark: SparkSession, bootstrap: str, directory: str) -> None:
    """Append to the table of ``directory`` whatever the topic has beyond it."""
    options = kafka_options(
        bootstrap, by="assign", start="earliest", max_offsets_per_trigger=100_000
    )
    rows = spark.readStream.format("kafka").options(**options).load()
    query = (
        decode(rows)
        .writeStream.format("parquet")
        .option("path", f"{directory}/records")
        .option("checkpointLocation", f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def table(spark: SparkSession, directory: str) -> DataFrame:
    """The table; read by its path it holds the files of finished micro-batches only."""
    return spark.read.parquet(f"{directory}/records")


if __name__ == "__main__":
    main(*sys.argv[1:])
