"""Keeps one set of Delta or Iceberg tables of many clusters: state and history of topics,
partitions, configs and the rest, from the view topics of ``kwire serve``, by Spark's own Kafka
source and ``MERGE``.

    from kwire.spark.fleet import keep, register, session
    spark = session()
    keep(spark, {"eu": "h1:9092", "us": "h2:9092"}, "/data/fleet")
    register(spark, "/data/fleet")
    spark.sql("SELECT cluster_id, count(*) FROM topics GROUP BY cluster_id").show()

Spark reads, merges and writes; the driver asks each server how far its log goes and whether it is
still the log that was read. No code of kwire runs on executors.
"""

from __future__ import annotations

from kwire.spark.fleet.job import keep, register, session
from kwire.spark.fleet.place import FleetError
from kwire.spark.fleet.plan import Condition, Outcome

__all__ = ["Condition", "FleetError", "Outcome", "keep", "register", "session"]
