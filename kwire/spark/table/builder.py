"""Brings the tables of one cluster up to date with records, on the driver or on an executor. Each
commit counts once, whichever process is killed at any moment (``store``). It starts no job.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from kwire.spark.table.delivery import Delivery
from kwire.spark.table.directory import directory_rows
from kwire.spark.table.fold import Fold
from kwire.spark.table.pieces import CHANGES_AT_ONCE, Parts, Pieces, cuts
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Format, Store, TablesError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS_AT_ONCE: Final = 20_000


class OtherClusterError(TablesError):
    """The tables are of another cluster than the source."""


class Builder:
    """The state of the tables at a path, and their writer. As a function it is one of foreachBatch:
    a micro-batch that runs again adds nothing twice.
    """

    def __init__(
        self, path: str, format: Format, *, fail_fast: bool = False, cluster: str | None = None
    ) -> None:
        """Load the state. ``cluster`` is the id of the cluster whose records follow, None if it is
        not known. Raises TablesError for tables of another format, OtherClusterError for those of
        another cluster.
        """
        self.path = path
        self._store, self._fail_fast = Store(path, format), fail_fast
        self._load(cluster)

    def _load(self, cluster: str | None) -> None:
        with self._store.writing():
            self._fold = Fold(self._store.load(), fail_fast=self._fail_fast)
            self.check_cluster(cluster)
            is_parquet = self._store.manifest.kept == "parquet"
            self._delivery = None if is_parquet else Delivery(self._store)

    def check_cluster(self, cluster: str | None) -> None:
        """Raise OtherClusterError if the tables are of another cluster; None is not known."""
        manifest = self._store.manifest
        if cluster and manifest.cluster and cluster != manifest.cluster:
            raise OtherClusterError(
                f"{self.path} has tables of cluster {manifest.cluster}, and the source is cluster"
                f" {cluster}"
            )
        manifest.cluster = manifest.cluster or cluster

    def refresh(self) -> None:
        """Take up what another writer has committed. Raises TablesError."""
        if not self._store.is_current():
            self._load(self._store.manifest.cluster)

    @property
    def entities(self) -> int:
        """The number of entities in the state, which is a measure of its memory."""
        return sum(map(len, self._fold.state.since.values()))

    @property
    def next_offset(self) -> int:
        """The tables hold every record below this offset."""
        return self._fold.state.next_offset

    @property
    def last_time(self) -> int | None:
        """The timestamp (ms) of the record before ``next_offset``."""
        return self._fold.state.last_time

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """Keep other writers out for a block (:meth:`Store.writing`)."""
        return self._store.writing()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        also = [name for name in ("epoch", "error") if name in batch.columns]
        new = F.col("offset").isNull() | (F.col("offset") >= self.next_offset)
        read = batch.where(new).select("offset", "timestamp", "value", *also).toArrow()
        self.take(_rows(read.sort_by("offset")))

    def take(self, parts: Iterable[Sequence[Row]]) -> None:
        """Fold rows in offset order, and commit them at once. Rows without an offset, which are
        unreadable places of a file, count as errors behind the others.
        """
        with without_collector(), self._store.writing():
            self._take(parts)

    def take_directory(self, directory: str, processes: int = 1) -> None:
        """Fold a log directory from ``next_offset`` on. A long one is folded in pieces at the same
        time by at most ``processes`` processes, this one among them. Raises what ``directory_rows``
        does, and TablesError.
        """
        since = self.next_offset
        rows, offsets = directory_rows(directory, since), cuts(directory, since, processes)
        if not offsets:
            self.take(rows)
            return
        store, parts = self._store, Parts(self._store)
        with without_collector(), store.writing():
            kept = store.manifest.kept
            with Pieces(
                directory, since, offsets, self.path, kept, fail_fast=self._fail_fast
            ) as pieces:
                lost = self._fold_all(rows, parts.add, quiet_below=offsets[-1])
                store.adopt([*pieces.files(), *parts.files])
            if self.next_offset > since:
                self._commit(lost)

    def _take(self, parts: Iterable[Sequence[Row]]) -> None:
        before = self.next_offset
        lost = self._fold_all(parts, self._store.add)
        if self.next_offset > before:
            self._commit(lost)

    def _fold_all(
        self,
        parts: Iterable[Sequence[Row]],
        write: Callable[[Folded], None],
        quiet_below: int = 0,
    ) -> list[Row]:
        """Fold rows, and write them but for the last ones. Return rows without an offset."""
        lost: list[Row] = []
        for rows, ahead in pairwise(chain(parts, [()])):
            lost += [row for row in rows if row.offset < 0]
            self._fold.take(rows, ahead, quiet_below=quiet_below)
            if len(self._fold.folded.changes) >= CHANGES_AT_ONCE:
                write(self._fold.folded)
                # Files that a process writes do not say what is dirty.
                self._fold.folded = Folded(dirty=self._fold.folded.dirty)
        return lost

    def _commit(self, lost: Iterable[Row]) -> None:
        for row in lost:
            self._fold.lost(row._replace(offset=self.next_offset))
        self._store.commit(self._fold.state, self._fold.folded)
        self._fold.folded = Folded()
        if self._delivery is not None:
            self._delivery.deliver()


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Pause the garbage collector: the fold makes no cycles, and many objects that stay, which the
    collector would visit again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _rows(read: pa.Table) -> Iterator[list[Row]]:
    """Yield the rows of ``read``, some thousands at a time."""
    import pyarrow as pa

    for batch in read.combine_chunks().to_batches(max_chunksize=_ROWS_AT_ONCE):
        times = batch.column("timestamp").cast(pa.timestamp("ms", tz="UTC"), safe=False)
        columns = {
            name: batch.column(name).to_pylist()
            for name in batch.schema.names
            if name != "timestamp"
        }
        epochs, errors = (
            columns.get(name) or [None] * batch.num_rows for name in ("epoch", "error")
        )
        # The value says itself whether it can be read; without one the source knows why.
        yield [
            Row(
                -1 if offset is None else offset,
                time or 0,
                value,
                epoch,
                error if value is None else None,
            )
            for offset, time, value, epoch, error in zip(
                columns["offset"],
                times.cast(pa.int64()).to_pylist(),
                columns["value"],
                epochs,
                errors,
                strict=True,
            )
        ]
