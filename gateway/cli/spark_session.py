"""The Spark session of a command. It imports no Spark before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def running_session(make: Callable[[], SparkSession]) -> Iterator[SparkSession]:
    """Yield the session that runs in this process, which goes on; else one that ``make`` starts,
    which ends behind the block.
    """
    from pyspark.sql import SparkSession

    if running := SparkSession.getActiveSession():
        yield running
        return
    spark = make()
    # The command reports a failure once, without the JVM's stack.
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()
