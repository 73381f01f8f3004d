"""Follow the metadata topic: a line for every change, a second after it at most, until stopped.

    spark-submit --jars $(kwire spark jars) \
        docs/examples/spark_stream.py localhost:9092 /var/tmp/metadata

The second argument is the checkpoint directory: started again with it, the query goes on where it
was.
"""

import sys

from pyspark.sql import DataFrame, SparkSession

from kwire.spark import decode, kafka_options, without


def main(bootstrap: str, checkpoint: str) -> None:
    spark = SparkSession.builder.appName("metadata changes").getOrCreate()
    rows = (
        spark.readStream.format("kafka")
        .options(**kafka_options(bootstrap, by="assign", start="earliest"))
        .load()
    )
    changes = decode(without(rows, "NO_OP_RECORD"))
    # Without processingTime, Spark asks the server for the newest offset some thirty times a
    # second.
    query = (
        changes.writeStream.foreachBatch(show)
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime="1 second")
        .start()
    )
    query.awaitTermination()


def show(batch: DataFrame, batch_id: int) -> None:
    """Print a micro-batch. After a crash Spark may run the last one again, with the same
    ``batch_id``.
    """
    for row in batch.orderBy("offset").toLocalIterator():
        print(row.offset, row.type, row.data if row.error is None else row.error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
