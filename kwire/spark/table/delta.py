"""Writes the tables of ``delivery`` as Delta tables, with the library ``deltalake``: any PySpark
writes and reads them, without jars. It does not know the fold or the records.

Each commit of a Delta table carries the number of the manifest's commit as the ``txn`` action of
Delta's protocol.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from kwire.spark.table.kinds import Kind
from kwire.spark.table.names import KEYS
from kwire.spark.table.store import Store, TablesError

deltalake: Any
try:
    import deltalake
except ImportError:  # the extra "delta" is not installed
    deltalake = None

#: A commit of a Delta log, or a checkpoint, which stands for older commits that Delta has deleted.
_COMMIT: Final = re.compile(r"[0-9]{20}\.(json|checkpoint\..*)")


def check_delta() -> None:
    """Raise ValueError, in a sentence, if the library for Delta tables is not installed."""
    if deltalake is None:
        raise ValueError(
            "format=\"delta\" needs the library deltalake: pip install 'kwire[spark,delta]'"
        )


class DeltaTables:
    """One Delta table for each name, at ``store``'s directory."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def is_there(self, name: str) -> bool:
        """True if the table has a commit. A writer that is killed in the first commit leaves a log
        without commits. Delta regards that as no table, and the next writer makes it.
        """
        return any(_COMMIT.fullmatch(file) for file in self._store.names(f"{name}/_delta_log"))

    def has_commit(self, name: str) -> bool:
        """True if the table has the rows of the manifest's last commit."""
        if not self.is_there(name):
            return False
        version = self._opened(name).transaction_version(self._application)
        return version is not None and version >= self._store.manifest.commit

    def append(self, name: str, rows: pa.Table) -> None:
        """Add rows; make the table if it is not there."""
        deltalake.write_deltalake(
            self._store.uri(name), rows, mode="append", commit_properties=self._properties()
        )

    def merge(self, kind: Kind, rows: pa.Table) -> None:
        """Close the open rows that have ended, and add new rows."""
        same = " AND ".join(
            f"(old.`{name}` = new.`{name}`)" for name in (*KEYS[kind.entity], "validFromOffset")
        )
        # A row that ended before is not looked at: Delta skips the files that have none but these.
        # Those of the last commit are, because tables that Spark wrote carry no commit numbers.
        since = self._store.manifest.outbox.since
        merge = self._opened(kind.table).merge(
            rows,
            f"{same} AND ((old.`validToOffset` IS NULL) OR (old.`validToOffset` >= {since}))",
            source_alias="new",
            target_alias="old",
            commit_properties=self._properties(),
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self, name: str) -> None:
        """Merge small files, and delete those that no version of the last week needs (Delta's
        ``delta.deletedFileRetentionDuration``).
        """
        table = self._opened(name)
        table.optimize.compact()
        table.vacuum(dry_run=False)

    def files(self, name: str) -> list[str]:
        """The Parquet files with the rows of the table's present version. Raises TablesError."""
        return list(self._opened(name).file_uris())

    def _opened(self, name: str) -> Any:
        """Return the table. Raises TablesError if another writer has given it deletion vectors, as
        the rows are then not those of the files.
        """
        table = deltalake.DeltaTable(self._store.uri(name))
        if "deletionVectors" in (table.protocol().reader_features or ()):
            raise TablesError(
                f"{self._store.uri(name)} has deletion vectors, which only another writer can have"
                " made; let only one query write the tables, and build them anew"
            )
        return table

    @property
    def _application(self) -> str:
        """The ``appId`` of Delta's ``txn`` action: the identity of these tables."""
        return f"kwire-{self._store.manifest.outbox.id}"

    def _properties(self) -> Any:
        transaction = deltalake.Transaction(self._application, self._store.manifest.commit)
        return deltalake.CommitProperties(app_transactions=[transaction])
