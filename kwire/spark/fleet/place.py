"""Finds and makes the fleet's tables in Delta or Iceberg, at a path or in a catalog."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kwire.spark.fleet import sql
from kwire.spark.fleet.evolution import lacking
from kwire.spark.fleet.views import CLUSTER_ID, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Format = Literal["delta", "iceberg"]
CLUSTERS: Final = "clusters"
#: The columns of the table ``clusters``.
CLUSTERS_COLUMNS: Final = (
    CLUSTER_ID[:2],
    ("name", "STRING"),
    ("generation", "INT"),
    ("position", "BIGINT"),
    ("anchor_topic", "STRING"),
    ("anchor_offset", "BIGINT"),
    ("anchor_timestamp_ms", "BIGINT"),
    ("condition", "STRING"),
    ("message", "STRING"),
    ("views", "STRING"),
    ("updated", "TIMESTAMP"),
)
_CATALOG_CLASS: Final = "org.apache.iceberg.spark.SparkCatalog"
#: The conditions by which Spark says that a table is not there.
_NOT_THERE: Final = (
    "TABLE_OR_VIEW_NOT_FOUND",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "PATH_NOT_FOUND",
)
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


#: Properties of a state, so that a MERGE marks the rows that it replaces, and rewrites no file.
OF_STATES: Final[Mapping[Format, Mapping[str, str]]] = {
    "delta": {"delta.enableDeletionVectors": "true"},
    "iceberg": {f"write.{one}.mode": "merge-on-read" for one in ("merge", "update", "delete")},
}
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class FleetError(RuntimeError):
    """The tables cannot be used; the text is a sentence for the user."""


def settings(format: Format) -> Mapping[str, str]:
    """Return what a session needs before it starts, for tables of ``format``."""
    return _DELTA if format == "delta" else {}


@dataclass(frozen=True)
class Place:
    """Where the tables are: ``where`` is a directory or URI, or the name of a database, such as
    ``catalog.database``.
    """

    where: str
    format: Format

    @property
    def is_uri(self) -> bool:
        return _SCHEME.match(self.where) is not None

    @property
    def is_path(self) -> bool:
        return "/" in self.where

    def table(self, name: str) -> str:
        """Return the quoted name of a table in SQL."""
        if not self.is_path:
            return ".".join(map(sql.quoted, (*self.where.split("."), name)))
        if self.format == "delta":
            return f"delta.{sql.quoted('/'.join((self.where.rstrip('/'), name)))}"
        return f"{self._catalog}.{sql.quoted(name)}"

    @property
    def _catalog(self) -> str:
        """The name of the catalog of Iceberg tables at a path: one for each path."""
        return f"kwire_{hashlib.sha256(self.where.encode()).hexdigest()[:16]}"

    def prepare(self, spark: SparkSession) -> None:
        """Make the session know the place. Raises FleetError where it lacks the format, or a file
        system of that kind, or where that does not answer.
        """
        if self.is_uri:
            self._look(spark)
        if self.format == "delta":
            if _DELTA["spark.sql.extensions"] not in str(
                spark.conf.get("spark.sql.extensions", "")
            ):
                wanted = " ".join(f"--conf {name}={value}" for name, value in _DELTA.items())
                raise FleetError(
                    "Delta is not set up in this Spark session; start it with the jars of"
                    f" kwire spark jars --format delta, and with {wanted}"
                )
        elif self.is_path:
            name = f"spark.sql.catalog.{self._catalog}"
            spark.conf.set(name, _CATALOG_CLASS)
            spark.conf.set(f"{name}.type", "hadoop")
            spark.conf.set(f"{name}.warehouse", self.where)

    def _look(self, spark: Any) -> None:
        """Raise FleetError where Hadoop's client cannot look at the URI."""
        from py4j.protocol import Py4JJavaError

        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        try:
            path = spark._jvm.org.apache.hadoop.fs.Path(self.where)
            path.getFileSystem(configuration).exists(path)
        except Py4JJavaError as error:
            why = str(error.java_exception.toString()).partition("\n")[0]
            raise FleetError(
                f"{self.where} cannot be used: {why}. Spark reads and writes it by Hadoop's client,"
                " whose jars and settings are Spark's: --conf spark.jars.packages=...,"
                " spark.hadoop.fs..."
            ) from None

    def make(self, spark: SparkSession, view: View | None = None) -> bool:
        """Make the tables of ``view``, or the one of clusters, unless they are there; add what
        this kwire has and they lack. Return whether none was there. Raises what Spark raises.
        """
        if view is None:
            if not self.is_path:
                database = ".".join(map(sql.quoted, self.where.split(".")))
                spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {database}")
            about = "Clusters, how far their logs were read, and why one stopped"
            return self._make(spark, CLUSTERS, CLUSTERS_COLUMNS, about)
        made = []
        for name in view.tables:
            which = "Every record" if name == view.tables[0] else "The last record of each"
            about = f"{which} of the view {view.name}, of all clusters"
            properties = {} if name == view.tables[0] else OF_STATES[self.format]
            made.append(self._make(spark, name, view.columns, about, properties))
        return all(made)

    def _make(
        self,
        spark: SparkSession,
        name: str,
        columns: Sequence[tuple[str, str]],
        about: str,
        properties: Mapping[str, str] | None = None,
    ) -> bool:
        have, table = self.schema(spark, name), self.table(name)
        if have is None:
            text = sql.create(
                table,
                columns,
                self.format,
                about,
                partitioned=name != CLUSTERS,
                properties={"kwire.table": name, **(properties or {})},
            )
            spark.sql(text)
        elif missing := list(lacking(have, _schema(columns))):
            spark.sql(sql.add_columns(table, missing))
        return have is None

    def compact(self, name: str, clusters: Sequence[str]) -> str:
        """Return the statement that writes the partitions of ``clusters`` of a table anew, in few
        files and without the rows that were replaced.
        """
        which = f"{CLUSTER_ID[0]} IN ({', '.join(map(sql.literal, clusters))})"
        if self.format == "delta":
            return f"OPTIMIZE {self.table(name)} WHERE {which}"
        # A database without a catalog is of the session's present one, as its procedures are.
        catalog, dot, _ = (f"{self._catalog}." if self.is_path else self.where).partition(".")
        procedure = f"{sql.quoted(catalog)}.system" if dot else "system"
        return (
            f"CALL {procedure}.rewrite_data_files(table => {sql.literal(self.table(name))},"
            f" where => {sql.literal(which)}, options => map('remove-dangling-deletes', 'true'))"
        )

    def schema(self, spark: SparkSession, name: str) -> StructType | None:
        """Return the columns of a table; None if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            return spark.table(self.table(name)).schema
        except AnalysisException as error:
            if error.getCondition() in _NOT_THERE:
                return None
            raise

    def register(self, spark: SparkSession, views: Sequence[View]) -> None:
        """Make temporary views: the present entities by the name of the view, ``VIEW_versions``
        with the time of each version, ``changes`` and ``clusters``. A view that has had no record
        yet is empty. Raises FleetError if there are no tables at all.
        """
        self.prepare(spark)
        if self.schema(spark, CLUSTERS) is None:
            raise FleetError(f"{self.where} has no {self.format} tables of clusters")
        spark.sql(sql.view(CLUSTERS, f"SELECT * FROM {self.table(CLUSTERS)}"))
        for view in views:
            history, *state = map(self.table, view.tables)
            if not state:
                self._register(spark, view, view.name, f"SELECT * FROM {history}", history)
                continue
            self._register(spark, view, view.name, sql.present(state[0]), state[0])
            versions = sql.versions(view, history)
            self._register(spark, view, f"{view.name}_versions", versions, history)

    def _register(self, spark: SparkSession, view: View, name: str, query: str, table: str) -> None:
        """Make a temporary view of ``query``, which asks ``table``; as if that were empty where it
        has not been made.
        """
        from pyspark.errors import AnalysisException

        try:
            spark.sql(sql.view(name, query))
        except AnalysisException as error:
            if error.getCondition() not in _NOT_THERE:
                raise
            empty = f"({sql.values(view.columns, [])})"
            spark.sql(sql.view(name, query.replace(table, empty)))


def _schema(columns: Sequence[tuple[str, str]]) -> StructType:
    from pyspark.sql.types import DataType, StructType

    return cast(StructType, DataType.fromDDL(sql.columns(columns)))
