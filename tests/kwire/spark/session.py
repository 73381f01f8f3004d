"""One Spark session for every test of a run: starting one takes seconds, and a second cannot have
other jars.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from kwire.jars.maven import MavenError
from kwire.jars.spark import spark_jars
from tests.interop.clients import missing
from tools.spark_home import FEW_ROWS, driver_options, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@functools.cache
def _jars() -> tuple[str, str]:
    """(the jars of the Kafka source, "") or ("", why there are none)."""
    try:
        return str(spark_jars()), ""
    except MavenError as error:
        return "", f"the jars of Spark's Kafka source are not to be had: {error}"


def spark_session(*, kafka: bool) -> SparkSession:
    """The session, started on first use; with ``kafka``, the test needs Spark's Kafka source."""
    try:
        import pyarrow  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError:
        missing("PySpark is not installed (the extra 'spark' has it)")
    if shutil.which("java") is None:
        missing("there is no Java on the PATH")
    jars, why = _jars()
    if kafka and not jars:
        missing(why)
    return _session(jars)


@functools.cache
def _session(jars: str) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.update(environment())
    warehouse = tempfile.mkdtemp(prefix="kwire-spark-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    builder = SparkSession.builder.master("local[2]").appName("kwire tests")
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **FEW_ROWS,
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": driver_options(),
        "spark.sql.warehouse.dir": warehouse,
        "spark.sql.streaming.stopTimeout": "30s",
    }
    if jars:
        settings["spark.jars"] = jars
    session = builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
