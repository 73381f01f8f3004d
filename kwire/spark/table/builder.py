"""Brings the tables of one cluster up to date with records, on the driver. Each commit counts once,
whichever process is killed at any moment (``store``). It starts no job.
"""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Literal

from kwire.spark.source.offsets import DataLossError
from kwire.spark.table.fold import Fold
from kwire.spark.table.log import DirectoryLog, Log
from kwire.spark.table.pieces import CHANGES_AT_ONCE, Parts, Pieces, cuts
from kwire.spark.table.rows import Folded, Row
from kwire.spark.table.store import Store, TablesError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_ROWS_AT_ONCE: Final = 20_000
#: The answer to a log that does not reach back to the end of the tables.
OnGap = Literal["fail", "resync"]


class _Gap(DataLossError):
    """Records between the tables and the log are gone."""


class Builder:
    """The state of the tables at a path, and their writer. As a function it is one of foreachBatch:
    a micro-batch that runs again adds nothing twice.
    """

    def __init__(
        self,
        path: str,
        *,
        fail_fast: bool = False,
    ) -> None:
        """Load the state. Raises ValueError and TablesError as :class:`Store`."""
        self.path = path
        #: The rows that were committed, by table.
        self.rows = Counter[str]()
        self._store, self._fail_fast = Store(path), fail_fast
        self._load()

    def _load(self) -> None:
        self._fold = Fold(self._store.load(), fail_fast=self._fail_fast)

    def _check_cluster(self, cluster: str | None) -> None:
        """Raise TablesError if the tables are of another cluster; None is not known."""
        manifest = self._store.manifest
        if cluster and manifest.cluster and cluster != manifest.cluster:
            raise TablesError(
                f"{self.path} has tables of cluster {manifest.cluster}, and the source is cluster"
                f" {cluster}; take another directory for its tables"
            )
        manifest.cluster = manifest.cluster or cluster

    @property
    def cluster(self) -> str | None:
        """The id of the cluster that the tables are of, None if it is not known."""
        return self._store.manifest.cluster

    @property
    def next_offset(self) -> int:
        """The tables hold every record below this offset."""
        return self._fold.state.next_offset

    @property
    def last_time(self) -> int | None:
        """The timestamp (ms) of the record before ``next_offset``."""
        return self._fold.state.last_time

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as F

        also = [name for name in ("epoch", "error") if name in batch.columns]
        new = F.col("offset").isNull() | (F.col("offset") >= self.next_offset - 1)
        read = batch.where(new).select("offset", "timestamp", "value", *also).toArrow()
        self.take(self._checked(_rows(read.sort_by("offset"))))

    def _checked(self, parts: Iterable[Sequence[Row]]) -> Iterator[Sequence[Row]]:
        """``parts``. Raises DataLossError for another record than the tables end with."""
        at, time = self.next_offset, self.last_time
        for rows in parts:
            for row in rows[:1]:
                if row.offset == at - 1 and row.error is None and time not in (None, row.timestamp):
                    raise DataLossError(
                        f"the record at offset {at - 1} is not the one that the tables at"
                        f" {self.path} end with: it is another log, or the records of a snapshot;"
                        " build the tables anew in another directory"
                    )
            yield rows

    def take(self, parts: Iterable[Sequence[Row]]) -> None:
        """Fold rows in offset order, and commit them at once. Rows without an offset, which are
        unreadable places of a file, count as errors behind the others. Raises DataLossError.
        """
        with without_collector(), self._store.writing():
            self._take(parts)

    def bring(self, log: Log, on_gap: OnGap = "fail", processes: int = 1) -> None:
        """Bring the tables to the end of ``log``. A long directory is folded in pieces at the same
        time by at most ``processes`` processes, this one among them.

        Raises DataLossError if the log does not reach back to the tables, unless
        ``on_gap`` says to go on from the log's snapshot, which is a commit of its own; TablesError
        if it is another log, or has no snapshot to go on from; and what the log does.
        """
        with without_collector(), self._store.writing():
            self._check_cluster(log.cluster_id)
            try:
                rows = self._continued(log)
            except _Gap:
                if on_gap == "fail":
                    raise
                self._resync(log)
                rows = self._continued(log)
            pieces = isinstance(log, DirectoryLog)
            offsets = cuts(log.name, self.next_offset, processes) if pieces else []
            if offsets:
                self._take_pieces(log.name, rows, offsets)
            else:
                self._take(rows)

    def _continued(self, log: Log) -> Iterator[Sequence[Row]]:
        """The rows of ``log`` from the tables' end on, and the one before these if the log has it:
        it must be the one that the tables end with.
        """
        at, time = self.next_offset, self.last_time
        gap = (
            f"{log.name}: the log does not reach back to offset {at}, where the tables at"
            f" {self.path} end, and what changed between is gone."
            ' on_gap="resync" (kwire spark --on-gap resync) goes on from the log\'s snapshot and'
            " deletes what was deleted meanwhile; or build the tables anew in another directory"
        )
        if not at:
            return log.rows(0)
        if at < log.start:
            raise _Gap(gap)
        first: Sequence[Row] | None = None
        if at > log.start and time is not None:
            following = log.rows(at - 1)
            first = next(following, None)
            row = first[0] if first else None
            if row and (row.error is not None or (row.offset, row.timestamp) == (at - 1, time)):
                return chain([first or ()], following)
            following.close()
        # No record is known with which to compare, or it is that of a snapshot, or of another log.
        whole_from = log.whole_from()
        if at < whole_from:
            raise _Gap(gap)
        if at == whole_from or time is None:
            return log.rows(at)
        raise TablesError(
            f"{log.name}: "
            + (
                f"the record at offset {at - 1} is not the one that the tables at {self.path} end"
                " with: it is another log"
                if first
                else f"the log ends before offset {at}, where the tables at {self.path} end: it was"
                " cut off, restored from an older copy or made anew"
            )
            + "; take another directory for its tables"
        )

    def _resync(self, log: Log) -> None:
        """Go on from the snapshot that ``log`` begins with, as one commit."""
        end = log.snapshot_end()
        if end is None:
            raise TablesError(
                f"{log.name}: the log begins at offset {log.start} without a snapshot, so its state"
                " is not known: read it where a snapshot is in front of it (snapshot.prefix=true)"
            )
        fold = Fold(fail_fast=self._fail_fast)
        for rows, ahead in pairwise(chain(log.rows(0, end), [()])):
            fold.take(rows, ahead, until=end)
            self._fold.folded.errors += fold.folded.errors
            fold.folded = Folded()
        self._fold.resync(fold.state, end)
        self._commit(())

    def _take_pieces(
        self, directory: str, rows: Iterator[Sequence[Row]], offsets: Sequence[int]
    ) -> None:
        since, store, parts = self.next_offset, self._store, Parts(self._store)
        with Pieces(directory, since, offsets, self.path, fail_fast=self._fail_fast) as pieces:
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
                self._fold.folded = Folded(before=self._fold.folded.before)
        return lost

    def _commit(self, lost: Iterable[Row]) -> None:
        for row in lost:
            self._fold.lost(row._replace(offset=self.next_offset))
        self.rows.update(self._store.commit(self._fold.state, self._fold.folded))
        self._fold.folded = Folded()


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
