"""The metadata topic in Spark: functions that turn the ``value`` column of Spark's own Kafka source into columns.

    from kwire.spark import decode, kafka_options, without
    rows = spark.read.format("kafka").options(**kafka_options("localhost:9092")).load()
    decode(without(rows, "NO_OP_RECORD")).show()

``register(spark)`` makes known ``format("kwire")``, which reads the topic and copies of its files without Spark's Kafka source.

Needs the ``spark`` extra (``pip install 'kwire[spark]'``), on the driver and on every executor. Connecting, offsets and
checkpoints are Spark's business; nothing but ``format("kwire")`` opens a connection.
"""

from __future__ import annotations

from kwire.spark.frames import decode, only, typed, without
from kwire.spark.options import METADATA_TOPIC, kafka_options
from kwire.spark.source import register

__all__ = ["METADATA_TOPIC", "decode", "kafka_options", "only", "register", "typed", "without"]
