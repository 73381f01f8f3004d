"""Writes each commit of ``store`` into Delta tables, too, with the library ``deltalake``: any
PySpark writes and reads them, without jars. It does not know the fold or the records.

Delta has no commit over several tables. The commit is therefore that of Parquet: files, and a
manifest that replaces the old one in one step. The new rows of a commit are an outbox: the writer
delivers them to Delta before the next commit, and the next writer delivers them again after a
crash. Each delivery carries the number of the commit as the ``txn`` action of Delta's protocol, and
a table that has this number is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kwire.spark.table.arrow import RECORD, SINCE, UNTIL, empty, spark_columns, table_columns
from kwire.spark.table.kinds import KINDS, Kind
from kwire.spark.table.store import Store, TablesError

deltalake: Any
try:
    import deltalake
except ImportError:  # the extra "delta" is not installed
    deltalake = None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A commit of a Delta log, or a checkpoint, which stands for older commits that Delta has deleted.
_COMMIT: Final = re.compile(r"[0-9]{20}\.(json|checkpoint\..*)")
_APPENDED: Final = ("changes", "errors", "load")
#: After so many commits the small files of each table are merged, and files that no version of the
#: last week needs are deleted (Delta's ``delta.deletedFileRetentionDuration``).
_COMPACT_EVERY: Final = 100
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


def check_delta() -> None:
    """Raise ValueError, in a sentence, if the library for Delta tables is not installed."""
    if deltalake is None:
        raise ValueError(
            "format=\"delta\" needs the library deltalake: pip install 'kwire[spark,delta]'"
        )


def delta_rows(spark: SparkSession, store: Store, name: str) -> DataFrame:
    """The rows of a Delta table; those of a kind with their whole history. The DataFrame reads the
    files of the table's present version, which are kept for a week.
    """
    if not _is_there(store, name):
        return spark.createDataFrame(empty(_columns(name)))
    files, columns = _opened(store, name).file_uris(), _columns(name)
    if not files:
        return spark.createDataFrame(empty(columns))
    return spark.read.schema(spark_columns(columns)).parquet(*files)


class Delivery:
    """Writes the outbox of ``store`` into Delta tables, one for each name, beside its manifest."""

    def __init__(self, store: Store) -> None:
        """Deliver the rows of the last commit, in case they were not. Raises TablesError if there
        are Delta tables that do not belong to the manifest.
        """
        self._store = store
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
            name: self._store.read(file for file, _ in files)
            for name, files in manifest.appended.items()
            if files
        }
        for name in _APPENDED:
            if name in new and not self._has_commit(name):
                self._append(name, new[name])
        for kind in KINDS:
            parts = [*([new[kind.table]] if kind.table in new else []), *self._begun(kind)]
            if parts and not self._has_commit(kind.table):
                self._merge(kind, _with_columns(parts, _columns(kind.table)))
        if manifest.commit % _COMPACT_EVERY == 0:
            self._compact()

    def _begun(self, kind: Kind) -> list[pa.Table]:
        """Return the rows of a kind that began with the last commit, and have not ended."""
        manifest = self._store.manifest
        files = manifest.current.get(kind.entity, {})
        dirty = manifest.outbox.dirty.get(kind.entity, ())
        touched = [files[bucket] for bucket in dirty if bucket in files]
        if not touched:
            return []
        now = self._store.read(touched).drop_columns([RECORD])
        return [now.filter(pa.compute.field("validFromOffset") >= manifest.outbox.since)]

    def _append(self, name: str, rows: pa.Table) -> None:
        deltalake.write_deltalake(
            self._store.uri(name), rows, mode="append", commit_properties=self._properties()
        )

    def _merge(self, kind: Kind, rows: pa.Table) -> None:
        """Close the open rows that have ended, and add new rows."""
        if not _is_there(self._store, kind.table):
            self._append(kind.table, rows)
            return
        same = " AND ".join(
            f"(old.`{name}` = new.`{name}`)" for name in (*_KEYS[kind.entity], "validFromOffset")
        )
        # A row that ended before is not looked at: Delta skips the files that have none but these.
        # Those of the last commit are, because tables that Spark wrote carry no commit numbers.
        table = _opened(self._store, kind.table)
        since = self._store.manifest.outbox.since
        merge = table.merge(
            rows,
            f"{same} AND ((old.`validToOffset` IS NULL) OR (old.`validToOffset` >= {since}))",
            source_alias="new",
            target_alias="old",
            commit_properties=self._properties(),
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _compact(self) -> None:
        for name in (*_APPENDED, *(kind.table for kind in KINDS)):
            if _is_there(self._store, name):
                table = _opened(self._store, name)
                table.optimize.compact()
                table.vacuum(dry_run=False)

    def _has_commit(self, name: str) -> bool:
        if not _is_there(self._store, name):
            return False
        table = _opened(self._store, name)
        version = table.transaction_version(self._application)
        return version is not None and version >= self._store.manifest.commit

    @property
    def _application(self) -> str:
        """The ``appId`` of Delta's ``txn`` action: the identity of these tables."""
        return f"kwire-{self._store.manifest.outbox.id}"

    def _properties(self) -> Any:
        transaction = deltalake.Transaction(self._application, self._store.manifest.commit)
        return deltalake.CommitProperties(app_transactions=[transaction])


def _with_columns(parts: Iterable[pa.Table], columns: dict[str, pa.DataType]) -> pa.Table:
    """Return the rows of ``parts`` with ``columns``; a column that a part lacks is null there."""
    whole = [
        pa.table(
            {
                name: part.column(name).cast(of)
                if name in part.column_names
                else pa.nulls(part.num_rows, of)
                for name, of in columns.items()
            }
        )
        for part in parts
    ]
    return pa.concat_tables(whole)


def _columns(name: str) -> dict[str, Any]:
    return table_columns(name) if name in _APPENDED else {**table_columns(name), **SINCE, **UNTIL}


def _opened(store: Store, name: str) -> Any:
    """Return the table. Raises TablesError if another writer has given it deletion vectors, as the
    rows are then not those of the files.
    """
    table = deltalake.DeltaTable(store.uri(name))
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise TablesError(
            f"{store.uri(name)} has deletion vectors, which only another writer can have made; let"
            " only one query write the tables, and build them anew"
        )
    return table


def _is_there(store: Store, name: str) -> bool:
    """True if the table has a commit. A writer that is killed in the first commit leaves a log
    without commits. Delta regards that as no table, and the next writer makes it.
    """
    return any(_COMMIT.fullmatch(file) for file in store.names(f"{name}/_delta_log"))
