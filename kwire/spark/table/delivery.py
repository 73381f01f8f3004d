"""Delivers each commit of ``store`` to tables of another format, one for each name, beside its
manifest. It knows neither the format (``delta``, ``iceberg``) nor the fold.

These formats have no commit over several tables. The commit is therefore that of Parquet: files,
and a manifest that replaces the old one in one step. The new rows of a commit are an outbox: the
writer delivers them before the next commit, and the next writer delivers them again after a crash.
Each delivery carries the number of the commit, and a table that has this number is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from kwire.spark.table.arrow import RECORD, empty, spark_columns
from kwire.spark.table.kinds import KINDS, Kind
from kwire.spark.table.names import APPENDED, NAMES, columns_of
from kwire.spark.table.store import Format, Store, TablesError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: After so many commits the small files of each table are merged.
_COMPACT_EVERY: Final = 100


class Tables(Protocol):
    """The tables of one format beside a manifest. Each change of a table is one commit of it, which
    stores the number of the manifest's commit.
    """

    def is_there(self, name: str) -> bool:
        """True if the table has a commit."""
        ...

    def has_commit(self, name: str) -> bool:
        """True if the table has the rows of the manifest's last commit."""
        ...

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows; make the table if it is not there."""
        ...

    def merge(self, kind: Kind, rows: pa.Table) -> None:
        """Replace the open rows of the same entity and beginning by ``rows``, and add the rest."""
        ...

    def compact(self, name: str) -> None:
        """Merge small files, and delete those that readers do not need any more."""
        ...

    def files(self, name: str) -> list[str]:
        """The Parquet files with the rows of the table's present version."""
        ...


def tables_of(store: Store) -> Tables:
    """The tables of the format that ``store`` keeps. Raises ValueError if its library is not
    installed.
    """
    check_library(store.manifest.kept)
    if store.manifest.kept == "iceberg":
        from kwire.spark.table.iceberg import IcebergTables

        return IcebergTables(store)
    from kwire.spark.table.delta import DeltaTables

    return DeltaTables(store)


def check_library(kept: Format) -> None:
    """Raise ValueError, in a sentence, if the library for a format is not installed."""
    if kept == "delta":
        from kwire.spark.table.delta import check_delta

        check_delta()
    if kept == "iceberg":
        from kwire.spark.table.iceberg import check_iceberg

        check_iceberg()


def delivered_rows(spark: SparkSession, store: Store, name: str) -> DataFrame:
    """The rows of a table; those of a kind with their whole history. The DataFrame reads the files
    of the table's present version, which are kept for a week.
    """
    tables, columns = tables_of(store), columns_of(name)
    files = tables.files(name) if tables.is_there(name) else []
    if not files:
        return spark.createDataFrame(empty(columns))
    return spark.read.schema(spark_columns(columns)).parquet(*files)


class Delivery:
    """Writes the outbox of ``store`` into the tables of its format."""

    def __init__(self, store: Store) -> None:
        """Deliver the rows of the last commit, in case they were not. Raises TablesError if there
        are tables that do not belong to the manifest, and ValueError if the format's library is not
        installed.
        """
        self._store, self._tables = store, tables_of(store)
        if store.manifest.commit:
            self.deliver()
        elif names := [name for name in NAMES if self._tables.is_there(name)]:
            raise TablesError(
                f"{store.uri('')}: {', '.join(names)} are there, without a manifest; take an empty"
                " directory"
            )

    def deliver(self) -> None:
        """Bring every table to the store's last commit."""
        manifest, tables = self._store.manifest, self._tables
        new = {
            name: self._store.read(file for file, _ in files)
            for name, files in manifest.appended.items()
            if files
        }
        for name in APPENDED:
            if name in new and not tables.has_commit(name):
                tables.append(name, new[name])
        for kind in KINDS:
            parts = [*([new[kind.table]] if kind.table in new else []), *self._begun(kind)]
            if parts and not tables.has_commit(kind.table):
                rows = _with_columns(parts, columns_of(kind.table))
                if tables.is_there(kind.table):
                    tables.merge(kind, rows)
                else:
                    tables.append(kind.table, rows)
        if manifest.commit % _COMPACT_EVERY == 0:
            for name in NAMES:
                if tables.is_there(name):
                    tables.compact(name)

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
