"""Starts a session for the fleet's tables, and keeps them: once, or round after round."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from kwire.jars.object_stores import S3, s3_jars
from kwire.jars.table_formats import format_jars, format_of
from kwire.spark.fleet.place import FleetError, Format, Place, settings
from kwire.spark.fleet.plan import OnGap, Outcome
from kwire.spark.fleet.probe import settings as connection
from kwire.spark.fleet.views import VIEWS, View
from kwire.spark.local import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A cluster: HOST:PORT, or the options of Spark's Kafka source for it.
Cluster = str | Mapping[str, str]
_SERVERS: Final = "kafka.bootstrap.servers"
#: Settings for few rows a commit, beside those of ``kwire.spark.local``: statements of MERGE fill
#: the code cache that the JVM has by default with one compiler.
_OF_MERGE: Final = {
    "spark.driver.extraJavaOptions": (
        f"{SETTINGS['spark.driver.extraJavaOptions']} -XX:ReservedCodeCacheSize=256m"
    ),
    "spark.databricks.delta.snapshotPartitions": "1",
}
#: Positions of idle clusters are written this often while a job follows them.
_SAVE_S: Final = 60.0


def session(
    format: Format | None = None, conf: Mapping[str, str] | None = None, where: str = ""
) -> SparkSession:
    """Return a session with the jars and settings for tables of ``format``, by default the one that
    runs with this PySpark. In a program of ``spark-submit`` the master and the jars are those of
    its command line. ``conf`` has settings of Spark, which come first. If ``where`` is a URI of
    ``s3a:``, the jars of Hadoop's client are among them.

    Raises MavenError where the jars are not to be had.
    """
    from pyspark.sql import SparkSession

    chosen = format or format_of()
    given: dict[str, bool | float | int | str | None] = dict(settings(cast(Format, chosen)))
    builder = SparkSession.builder.appName("kwire fleet")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        from kwire.jars.spark import spark_jars

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given |= {**SETTINGS, **_OF_MERGE}
        jars = [spark_jars(), format_jars(chosen), *([s3_jars()] if where.startswith(S3) else [])]
        given["spark.jars"] = ",".join(map(str, jars))
        builder = builder.master("local[*]")
    return builder.config(map=given | dict(conf or {})).getOrCreate()


def keep(
    spark: SparkSession,
    clusters: Mapping[str, Cluster],
    where: str,
    *,
    format: Format | None = None,
    views: Sequence[str] = tuple(VIEWS),
    on_gap: OnGap = "fail",
    every: float | None = None,
    told: Callable[[Sequence[Outcome]], object] = lambda _: None,
) -> Sequence[Outcome]:
    """Bring the tables of ``clusters`` at ``where`` up to the present ends of the logs, and return
    how it is with each cluster, in their order.

    ``clusters`` has the name of each, with HOST:PORT of ``kwire serve`` or the options of Spark's
    Kafka source, such as ``kafka.security.protocol``. ``where`` is a directory or URI that Spark
    writes to, or the name of a database in a catalog of the session. ``format`` is ``delta`` or
    ``iceberg``, by default the one that runs with this PySpark. With ``on_gap="resync"`` a log
    whose beginning is missing, or that began anew, is read again, and what is gone from it is
    marked deleted; else its cluster stops until that is asked for. With ``every`` there is a round
    each so many seconds, without an end, and ``told`` is called with the outcomes of each.

    Raises FleetError for what cannot be used, MavenError where no format runs with this PySpark,
    and what Spark raises where tables cannot be read or written.
    """
    from kwire.spark.fleet.rounds import Rounds

    place = Place(where, cast(Format, format or format_of()))
    rounds = Rounds(spark, _options(clusters), place, _views(views), on_gap)
    saved = time.monotonic()
    outcomes = rounds.round()
    told(outcomes)
    while every is not None:
        time.sleep(every)
        save = time.monotonic() - saved >= _SAVE_S
        if save:
            saved = time.monotonic()
        outcomes = rounds.round(save=save)
        told(outcomes)
    return outcomes


def register(
    spark: SparkSession,
    where: str,
    *,
    format: Format | None = None,
    views: Sequence[str] = tuple(VIEWS),
) -> None:
    """Make temporary views of the tables at ``where``: ``topics``, ``topics_versions`` and so on
    for each of ``views``, ``changes`` and ``clusters``. Raises FleetError if there are none.
    """
    Place(where, cast(Format, format or format_of())).register(spark, _views(views))


def _options(clusters: Mapping[str, Cluster]) -> dict[str, dict[str, str]]:
    """The options of Spark's source for each cluster. Raises FleetError."""
    if not clusters:
        raise FleetError("there is no cluster: name one with its HOST:PORT")
    found = {}
    for name, one in clusters.items():
        options = {_SERVERS: one} if isinstance(one, str) else dict(one)
        if "bootstrap.servers" in options:
            options[_SERVERS] = options.pop("bootstrap.servers")
        try:
            connection(options)
        except ValueError as error:
            raise FleetError(f"{name}: {error}") from None
        found[name] = options
    return found


def _views(names: Sequence[str]) -> list[View]:
    """Raises FleetError for a name that no view has."""
    for name in names:
        if name not in VIEWS:
            raise FleetError(f"there is no view {name!r}; there are {', '.join(VIEWS)}")
    return [VIEWS[name] for name in dict.fromkeys(names)]
