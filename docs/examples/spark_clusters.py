"""Brings the tables of several clusters to the end of their logs, or follows them:

    spark-submit --master spark://HOST:7077 --py-files kwire.zip spark_clusters.py \\
        PATH NAME=SOURCE...

PATH is a directory that all machines share, SOURCE a server or a log directory. With --follow the
program does not end: a change is in the tables some seconds later.
"""

import sys

from pyspark.sql import SparkSession

from kwire.spark import follow as tables_follow
from kwire.spark import read_table, tables


def main(path: str, *sources: str, follow: bool) -> None:
    spark = SparkSession.builder.appName("kwire tables").getOrCreate()
    named = dict(source.split("=", 1) for source in sources)
    if follow:
        tables_follow(spark, named, path).awaitTermination()
    else:
        tables(spark, named, path)
        read_table(spark, path, "changes").groupBy("cluster_id").count().show(truncate=False)
        read_table(spark, path, "errors").show(truncate=False)


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if one != "--follow"]
    main(*given, follow="--follow" in sys.argv)
