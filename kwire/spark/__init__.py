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

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kwire.spark.release import check_release

try:
    from pyspark import __version__ as _pyspark_version
except ImportError as error:  # pragma: no cover - the extra is installed wherever the tests run
    raise ImportError("kwire.spark needs PySpark 4.2 or 4.3: pip install 'kwire[spark]'") from error
check_release(_pyspark_version, fleet=True)

if TYPE_CHECKING:
    from kwire.spark.frames import decode, only, typed, without
    from kwire.spark.options import METADATA_TOPIC, kafka_options
    from kwire.spark.source.data_source import register
    from kwire.spark.table.build import follow, read_table, tables

__all__ = [
    "METADATA_TOPIC",
    "decode",
    "follow",
    "kafka_options",
    "only",
    "read_table",
    "register",
    "tables",
    "typed",
    "without",
]

#: Public name -> the module that has it. It is imported on first use, because Spark starts several
#: Python processes to plan a query, and each of them imports this package for one of its modules.
_MODULES: Final = {
    "METADATA_TOPIC": "kwire.spark.options",
    "decode": "kwire.spark.frames",
    "follow": "kwire.spark.table.build",
    "kafka_options": "kwire.spark.options",
    "only": "kwire.spark.frames",
    "read_table": "kwire.spark.table.build",
    "register": "kwire.spark.source.data_source",
    "tables": "kwire.spark.table.build",
    "typed": "kwire.spark.frames",
    "without": "kwire.spark.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_release(_pyspark_version)
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*__all__]
