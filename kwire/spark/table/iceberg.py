"""Writes the tables of ``delivery`` as Iceberg tables, with the library ``pyiceberg``: any PySpark
writes and reads them, without jars. It does not know the fold or the records.

Each commit of an Iceberg table sets the number of the manifest's commit as a property of the table.
Rows that change are rewritten with their files (copy on write), so that readers need no deletes.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute as pc

from kwire.spark.table.kinds import Kind
from kwire.spark.table.names import APPENDED, KEYS, columns_of
from kwire.spark.table.places import CLUSTER
from kwire.spark.table.store import Store, TablesError

catalogs: Any
config: Any
expressions: Any
try:
    from pyiceberg import catalog as catalogs
    from pyiceberg import expressions
    from pyiceberg.utils import config
except ImportError:  # the extra "iceberg" is not installed
    catalogs = config = expressions = None

#: The name of the catalog in pyiceberg's configuration (.pyiceberg.yaml, PYICEBERG_CATALOG__KWIRE__
#: in the environment). Without one there the catalog is a file beside the tables.
CATALOG: Final = "kwire"
_FILE: Final = "iceberg.db"
_COMMIT, _COMPACTED = "kwire.commit", "kwire.compacted"
#: Versions of a table, and files that only they have, are kept for so long.
_KEEP: Final = timedelta(hours=1)
_PROPERTIES: Final = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def check_iceberg() -> None:
    """Raise ValueError, in a sentence, if the library for Iceberg tables is not installed."""
    if catalogs is None:
        raise ValueError(
            "format=\"iceberg\" needs the library pyiceberg: pip install 'kwire[spark,iceberg]'"
        )


class IcebergTables:
    """One Iceberg table for each name, at ``store``'s directory. The namespace is the directory's
    name; of one of several clusters, that of all of them and the cluster's name.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        root, name = os.path.split(store.uri("").rstrip("/"))
        if name.startswith(f"{CLUSTER}="):
            name = f"{os.path.basename(root)}_{name.removeprefix(f'{CLUSTER}=')}"
        self._namespace = re.sub(r"\W", "_", name) or "kwire"
        self._opened: dict[str, Any] = {}

    @cached_property
    def _catalog(self) -> Any:
        """The catalog that the user configured, or SQLite in a file of this machine. Raises
        TablesError where neither is possible.
        """
        configured = config.Config().get_catalog_config(CATALOG)
        if configured:
            return catalogs.load_catalog(CATALOG, **configured)
        where = self._store.uri(_FILE)
        if "://" in where:
            raise TablesError(
                f"{self._store.uri('')}: Iceberg tables that are not on this machine need a catalog"
                f" named {CATALOG} in pyiceberg's configuration, such as"
                " PYICEBERG_CATALOG__KWIRE__URI"
            )
        os.makedirs(os.path.dirname(where), exist_ok=True)
        return catalogs.load_catalog(CATALOG, type="sql", uri=f"sqlite:///{where}")

    def is_there(self, name: str) -> bool:
        """True if the table has a commit."""
        table = self._table(name)
        return table is not None and _COMMIT in table.properties

    def has_commit(self, name: str) -> bool:
        """True if the table has the rows of the manifest's last commit."""
        table = self._table(name)
        if table is None or _COMMIT not in table.properties:
            return False
        identity, _, number = table.properties[_COMMIT].partition(" ")
        manifest = self._store.manifest
        return identity == manifest.outbox.id and int(number) >= manifest.commit

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows; make the table if it is not there."""
        table = self._table(name)
        if table is None:
            table = self._made(name)
        with table.transaction() as transaction:
            for part in _parts(name, rows):
                transaction.append(part)
            transaction.set_properties({_COMMIT: self._number})

    def merge(self, kind: Kind, rows: pa.Table) -> None:
        """Close the open rows that have ended, and add new rows.

        The open rows that began with one of these are taken out, and those of other entities put
        back. Open and ended rows are in different files, so that ended ones are never rewritten.
        """
        since = self._store.manifest.outbox.since
        ended = rows.filter(pc.field("validFromOffset") < since)
        began = ended.column("validFromOffset").unique().to_pylist()
        table = self._table(kind.table)
        with table.transaction() as transaction:
            if began:
                where = expressions.And(
                    expressions.IsNull("validToOffset"), expressions.In("validFromOffset", began)
                )
                keys = [*KEYS[kind.entity], "validFromOffset"]
                old = table.scan(row_filter=where).to_arrow()
                rows = pa.concat_tables([rows, _others(old, ended, keys).cast(rows.schema)])
                transaction.delete(where)
            for part in _parts(kind.table, rows):
                transaction.append(part)
            transaction.set_properties({_COMMIT: self._number})

    def compact(self, name: str) -> None:
        """Merge the files of the commits since the last time, and delete what no version of the
        last hour needs.
        """
        table = self._table(name)
        since = int(table.properties.get(_COMPACTED, 0))
        where = _since(name, since)
        rows = table.scan(row_filter=where).to_arrow()
        with table.transaction() as transaction, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a table may have no rows since then
            transaction.delete(where)
            for part in _parts(name, rows):
                transaction.append(part)
            next_offset = str(self._store.manifest.next_offset)
            transaction.set_properties({_COMPACTED: next_offset})
        before = datetime.now(UTC) - _KEEP
        table.maintenance.expire_snapshots().older_than(before).commit()
        self._sweep(name)

    def files(self, name: str) -> list[str]:
        """The Parquet files with the rows of the table's present version. Raises TablesError if
        another writer has deleted rows without rewriting their files.
        """
        tasks = list(self._table(name).scan().plan_files())
        if any(task.delete_files for task in tasks):
            raise TablesError(
                f"{self._store.uri(name)} has delete files, which only another writer can have"
                " made; let only one query write the tables, and build them anew"
            )
        return [task.file.file_path for task in tasks]

    def _table(self, name: str) -> Any:
        """The table as it was when it was used first, or after the last commit; None if there is
        none. Raises TablesError for a table of another directory.
        """
        if name not in self._opened:
            identifier = (self._namespace, name)
            if not self._catalog.table_exists(identifier):
                return None
            table = self._catalog.load_table(identifier)
            if table.location() != self._location(name):
                raise TablesError(
                    f"the table {self._namespace}.{name} of the catalog is that of"
                    f" {table.location()}, not of {self._location(name)}; give the directory"
                    " another name"
                )
            self._opened[name] = table
        return self._opened[name]

    def _made(self, name: str) -> Any:
        self._catalog.create_namespace_if_not_exists(self._namespace)
        schema = pa.schema(list(columns_of(name).items()))
        self._opened[name] = self._catalog.create_table(
            (self._namespace, name), schema, self._location(name), properties=_PROPERTIES
        )
        return self._opened[name]

    def _location(self, name: str) -> str:
        where = self._store.uri(name)
        return where if "://" in where else f"file://{where}"

    @property
    def _number(self) -> str:
        """The identity of these tables, and the number of the manifest's commit."""
        manifest = self._store.manifest
        return f"{manifest.outbox.id} {manifest.commit}"

    def _sweep(self, name: str) -> None:
        """Delete the files of the table that none of its versions has, and that are old: pyiceberg
        forgets versions, and leaves their files.
        """
        table = self._table(name)
        known = _known_files(table)
        before = time.time() - _KEEP.total_seconds()
        for directory in ("data", "metadata"):
            for file, changed in self._store.files_below(f"{name}/{directory}"):
                if changed < before and os.path.basename(file) not in known:
                    self._store.delete(file)


def _known_files(table: Any) -> set[str]:
    """The names of the files of all versions of a table; they are unique."""
    metadata = table.metadata
    found = {table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    for snapshot in metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found |= {entry.data_file.file_path for entry in entries}
    return {os.path.basename(path) for path in found}


def _since(name: str, offset: int) -> Any:
    """The filter of the rows in the small files: those of the commits from ``offset`` on, and every
    open row.
    """
    if name == "load":
        return expressions.AlwaysTrue()
    if name in APPENDED:
        return expressions.GreaterThanOrEqual("offset", offset)
    return expressions.Or(
        expressions.IsNull("validToOffset"),
        expressions.GreaterThanOrEqual("validToOffset", offset),
    )


def _parts(name: str, rows: pa.Table) -> list[pa.Table]:
    """The rows as they go into files: open rows by themselves."""
    if name in APPENDED:
        parts = [rows]
    else:
        is_open = pc.is_null(rows.column("validToOffset"))
        parts = [rows.filter(is_open), rows.filter(pc.invert(is_open))]
    return [part for part in parts if part.num_rows]


def _others(old: pa.Table, ended: pa.Table, keys: list[str]) -> pa.Table:
    """The rows of ``old`` whose ``keys`` are not among those of ``ended``."""
    gone = set(zip(*(ended.column(name).to_pylist() for name in keys), strict=True))
    mine = zip(*(old.column(name).to_pylist() for name in keys), strict=True)
    return old.filter(pa.array([key not in gone for key in mine], pa.bool_()))
