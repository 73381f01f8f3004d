"""Writes each commit of ``store`` into Delta tables, too. It does not know the fold or the records.

Delta has no commit over several tables. The commit is therefore that of Parquet: files, and a
manifest that replaces the old one in one step. The new rows of a commit are an outbox: the writer
delivers them to Delta before the next commit, and the next writer delivers them again after a
crash. Delivery may be repeated: an append carries the number of the commit as Delta's
``txnVersion``, and one that Delta has seen is skipped; a kind's rows are merged by key and
``validFromOffset``, which no two have in common.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from kwire.spark.table.arrow import RECORD, SINCE, UNTIL, empty, table_columns
from kwire.spark.table.kinds import KINDS, Kind
from kwire.spark.table.store import Store, TablesError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: By release of PySpark, the release of Delta that is built for it: another one fails in the middle
#: of a query.
BUILT_FOR: Final = {"4.2": "4.4"}
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
#: A commit of a Delta log, or a checkpoint, which stands for older commits that Delta has deleted.
_COMMIT: Final = re.compile(r"[0-9]{20}\.(json|checkpoint\..*)")
_APPENDED: Final = ("changes", "errors", "load")
#: The columns that tell an entity from the others of its kind.
_KEYS: Final = {
    "feature": ("name",),
    "topic": ("topicId",),
    "partition": ("topicId", "partition"),
    "config": ("resourceType", "resourceName", "name"),
    "broker": ("id",),
    "controller": ("id",),
    "acl": ("id",),
    "quota": ("entity", "name"),
    "user": ("name", "mechanism"),
    "token": ("tokenId",),
    "producer_ids": (),
}


def check_delta(spark: SparkSession) -> None:
    """Raise ValueError, in a sentence, if ``spark`` has no Delta, or one that is not built for
    it.
    """
    release = ".".join(spark.version.split(".")[:2])
    wanted = BUILT_FOR.get(release)
    if wanted is None:
        runs = ", ".join(
            f"PySpark {spark_release} with Delta {delta}"
            for spark_release, delta in BUILT_FOR.items()
        )
        raise ValueError(
            f'format="delta" runs with {runs}, and this is PySpark {spark.version}, for which no'
            ' Delta is built: take one of these, or format="parquet"'
        )
    found = _delta_version(spark)
    if found is None:
        raise ValueError(
            f'format="delta" needs Delta {wanted}, and this session has none: give spark.jars its'
            f" jars, spark.sql.extensions {_EXTENSION} and spark.sql.catalog.spark_catalog"
            f" {_CATALOG} before the session starts"
        )
    if ".".join(found.split(".")[:2]) != wanted:
        raise ValueError(
            f'format="delta" with PySpark {spark.version} needs Delta {wanted}, and this session'
            f" has {found}"
        )


def _delta_version(spark: SparkSession) -> str | None:
    configured = (
        spark.conf.get("spark.sql.extensions", "") or "",
        spark.conf.get("spark.sql.catalog.spark_catalog", ""),
    )
    if _EXTENSION not in configured[0].split(",") or configured[1] != _CATALOG:
        return None
    jvm: Any = spark._jvm
    package = getattr(jvm.io.delta, "package$")
    # py4j takes a name that is no class for one of a package.
    return (
        str(getattr(package, "MODULE$").VERSION())
        if type(package).__name__ == "JavaClass"
        else None
    )


def delta_rows(spark: SparkSession, store: Store, name: str) -> DataFrame:
    """The rows of a Delta table; those of a kind with their whole history."""
    if not _is_there(store, name):
        return spark.createDataFrame(empty(_columns(name)))
    return spark.read.format("delta").load(store.uri(name))


class Delivery:
    """Writes the outbox of ``store`` into Delta tables, one for each name, beside its manifest."""

    def __init__(self, spark: SparkSession, store: Store) -> None:
        """Deliver the rows of the last commit, in case they were not. Raises TablesError if there
        are Delta tables that do not belong to the manifest.
        """
        self._spark, self._store = spark, store
        if store.manifest.commit:
            self.deliver()
        elif names := [
            name for name in (*_APPENDED, *(kind.table for kind in KINDS)) if _is_there(store, name)
        ]:
            raise TablesError(
                f"{store.uri('')}: {', '.join(names)} are there, without a manifest; take an empty"
                " directory"
            )

    def deliver(self) -> None:
        """Bring every table to the store's last commit."""
        manifest = self._store.manifest
        new = {
            name: self._read(file for file, _ in files)
            for name, files in manifest.appended.items()
            if files
        }
        for name in _APPENDED:
            if name in new:
                transaction = {
                    "txnAppId": f"kwire-{manifest.outbox.id}",
                    "txnVersion": str(manifest.commit),
                }
                writer = new[name].write.format("delta").mode("append").options(**transaction)
                writer.save(self._store.uri(name))
        for kind in KINDS:
            parts = [new[kind.table]] if kind.table in new else []
            files = manifest.current.get(kind.entity, {})
            if touched := [
                files[bucket]
                for bucket in manifest.outbox.dirty.get(kind.entity, ())
                if bucket in files
            ]:
                now = (
                    self._read(touched)
                    .drop(RECORD)
                    .where(F.col("validFromOffset") >= manifest.outbox.since)
                )
                parts.append(now.withColumns({column: F.lit(None) for column in UNTIL}))
            if parts:
                self._merge(kind, parts)

    def _merge(self, kind: Kind, parts: list[DataFrame]) -> None:
        """Close the open rows that have ended, and add new rows; a row that is there already is
        replaced by itself.
        """
        wanted = spark_columns(self._spark, kind.table)
        rows = parts[0].select(*wanted)
        for part in parts[1:]:
            rows = rows.unionByName(part.select(*wanted))
        if not _is_there(self._store, kind.table):
            rows.write.format("delta").save(self._store.uri(kind.table))
            return
        rows.createOrReplaceTempView(view := f"kwire_{kind.table}")
        same = " AND ".join(
            f"old.`{name}` <=> new.`{name}`" for name in (*_KEYS[kind.entity], "validFromOffset")
        )
        # Rows that ended before are not looked at: Delta knows from its statistics which files have
        # none but these.
        open_then = (
            "(old.validToOffset IS NULL OR old.validToOffset >="
            f" {self._store.manifest.outbox.since})"
        )
        path = self._store.uri(kind.table).replace("`", "``")
        try:
            self._spark.sql(
                f"MERGE INTO delta.`{path}` AS old USING {view} AS new ON {same} AND {open_then}"
                " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            self._spark.catalog.dropTempView(view)

    def _read(self, files: Any) -> DataFrame:
        return self._spark.read.parquet(*self._store.uris(files))


def spark_columns(spark: SparkSession, name: str) -> list[Any]:
    """The columns of a kind's Delta table, each with its type."""
    schema = spark.createDataFrame(empty(_columns(name))).schema
    return [F.col(field.name).cast(field.dataType).alias(field.name) for field in schema]


def _columns(name: str) -> dict[str, Any]:
    return table_columns(name) if name in _APPENDED else {**table_columns(name), **SINCE, **UNTIL}


def _is_there(store: Store, name: str) -> bool:
    """True if the table has a commit. A writer that is killed in the first commit leaves a log
    without commits. Delta regards that as no table, and the next writer makes it.
    """
    return any(_COMMIT.fullmatch(file) for file in store.names(f"{name}/_delta_log"))
