"""The metadata topic in Spark: functions that turn the ``value`` column of Spark's own Kafka source
into columns.

    from kwire.spark import decode, kafka_options, without
    rows = spark.read.format("kafka").options(**kafka_options("localhost:9092")).load()
    decode(without(rows, "NO_OP_RECORD")).show()

``register(spark)`` registers ``format("kwire")``, which reads the topic and copies of its files
without Spark's Kafka source. ``tables`` builds tables from either, and ``read_table`` reads them.

Needs the ``spark`` extra (``pip install 'kwire[spark]'``), on the driver and on every executor.
Spark manages connections, offsets and checkpoints; only ``format("kwire")`` opens connections of
its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kwire.spark.frames import decode, only, typed, without
from kwire.spark.options import METADATA_TOPIC, kafka_options
from kwire.spark.source.data_source import register

if TYPE_CHECKING:
    from kwire.spark.table.build import read_table, tables
    from kwire.spark.versions import history

__all__ = [
    "METADATA_TOPIC",
    "decode",
    "history",
    "kafka_options",
    "only",
    "read_table",
    "register",
    "tables",
    "typed",
    "without",
]


def __getattr__(name: str) -> Any:
    """Import on first use the modules that executors do not need."""
    if name in ("read_table", "tables"):
        from kwire.spark.table import build as tables_build

        return getattr(tables_build, name)
    if name == "history":
        from kwire.spark.versions import history

        return history
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
