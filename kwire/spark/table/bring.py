"""Brings the tables of one of several clusters up to date, as one task of Spark: it reads the
source from the tables' own next offset on, folds, and commits.

The position is that of the tables, so a task that runs twice adds nothing twice. A fold stays in
the Python worker, which Spark uses again, as long as no other writer commits. A failure is an
outcome, not an exception: the task of one source cannot fail those of others.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kwire.cluster import FoldError
from kwire.errors import WireError
from kwire.spark.source.fetch import read_range
from kwire.spark.source.offsets import DataLossError, LogState
from kwire.spark.source.server import ServerError, ServerLog
from kwire.spark.table.builder import Builder, OtherClusterError
from kwire.spark.table.conditions import Outcome
from kwire.spark.table.directory import cluster_of, directory_rows, rows_of, start_of
from kwire.spark.table.places import NAME, cluster_path
from kwire.spark.table.rows import Row
from kwire.spark.table.sources import Source
from kwire.spark.table.store import Format, TablesError

#: Folds that a worker keeps: so many, with so many entities in all.
_FOLDS: Final = 64
_ENTITIES: Final = 300_000
_PATIENCE_S: Final = 5.0


class _Replaced(Exception):
    """The log at the source is not the one that the tables are of."""


class _Truncated(Exception):
    """The log begins behind the tables, and it has no snapshot that continues them."""


@dataclass(frozen=True)
class Task:
    """One source, and where its tables are. ``log`` is the log that the planner saw, None if the
    task has to look; ``end`` an offset to stop at; ``condition`` what the planner found out.
    """

    source: Source
    root: str
    format: Format = "parquet"
    fail_fast: bool = False
    log: LogState | None = None
    end: int | None = None
    condition: tuple[str, str] | None = None


def bring(task: Task) -> Outcome:
    """Read, fold and commit. Raises nothing that the source or its tables cause."""
    key = task.source.key
    cluster = task.log.cluster_id if task.log else None
    found = Outcome(key, task.source.name or cluster or None, condition=task.condition)
    if task.condition is not None:
        return found
    try:
        if task.source.directory is not None:
            return _from_directory(task, task.source.directory)
        return _from_server(task)
    except (ServerError, FileNotFoundError, PermissionError) as error:
        said = "UNREACHABLE", f"{error}; its tables stay as they are until it answers"
    except _Replaced as error:
        said = "REPLACED", f"{error}; give the source a new name, or delete its tables"
    except (_Truncated, DataLossError) as error:
        said = "TRUNCATED", f"{error}; delete the tables of this cluster to build them anew"
    except (FoldError, WireError) as error:
        said = "DAMAGED", f"{error}; its tables end before that"
    except (TablesError, OSError, ValueError) as error:
        said = "FAILED", str(error)
    return replace(found, condition=said)


# --- the sources
# --------------------------------------------------------------------------------------------------


def _from_directory(task: Task, directory: str) -> Outcome:
    start, cluster = start_of(directory), cluster_of(directory)
    builder = _builder(task, cluster)
    with builder.writing():
        builder.refresh()
        at = builder.next_offset
        try:
            rows = directory_rows(directory, at - 1 if at and start < at else at)
        except ValueError as error:
            raise _Truncated(str(error)) from None
        return _taken(task, builder, _checked(builder, rows), start)


def _from_server(task: Task) -> Outcome:
    state = task.log or _state(task.source)
    try:
        return _read(task, state)
    except (DataLossError, _Replaced):
        if task.log is None:
            raise
        # The log may have changed since the planner saw it.
        return _read(replace(task, end=None), _state(task.source))


def _state(source: Source) -> LogState:
    log = ServerLog(source.settings, patience_s=_PATIENCE_S)
    try:
        return log.state()
    finally:
        log.close()


def _read(task: Task, state: LogState) -> Outcome:
    builder = _builder(task, state.cluster_id)
    with builder.writing():
        builder.refresh()
        at = builder.next_offset
        if state.end < at:
            raise _Replaced(
                f"{task.source.address}: the log ends at offset {state.end}, and the tables at"
                f" {at}: it was wiped, or restored from an older copy"
            )
        first = max(at - 1, state.start, 0)
        end = state.end if task.end is None else min(task.end, state.end)
        rows = (rows_of(columns) for columns in read_range(task.source.settings, first, end))
        return _taken(task, builder, _checked(builder, rows, state.start), state.start)


def _taken(task: Task, builder: Builder, rows: Iterable[Sequence[Row]], start: int) -> Outcome:
    at = builder.next_offset
    path = builder.path
    try:
        builder.take(rows)
    except BaseException:
        _FOLDED.pop(path, None)  # its state is between two commits
        raise
    _trim()
    event = None
    if 0 < at < start and builder.next_offset > at:
        event = (
            "TRUNCATED",
            f"{task.source.address}: the log starts at offset {start}, and the tables ended at"
            f" {at}: the changes between are lost, and the tables continue with the state that the"
            " log begins with",
        )
    return Outcome(
        task.source.key, os.path.basename(path).partition("=")[2], builder.next_offset, event=event
    )


def _checked(
    builder: Builder, parts: Iterable[Sequence[Row]], start: int = 0
) -> Iterator[Sequence[Row]]:
    """``parts``, which begin at the record before the tables' next offset, if the log still has it.
    Raises _Replaced if it is another record than the tables ended with.
    """
    at, time = builder.next_offset, builder.last_time
    first = bool(at and time)
    for rows in parts:
        if first and rows:
            row, first = rows[0], False
            if row.offset == at - 1 and row.error is None and row.timestamp != time:
                raise _not_the_same(builder, start)
        yield rows


def _not_the_same(builder: Builder, start: int) -> Exception:
    at = builder.next_offset
    text = (
        f"the record at offset {at - 1} is not the one that the tables of {builder.path} end with"
    )
    if start:
        return _Truncated(
            f"{text}: the log begins with a snapshot, at offsets that the tables have already"
        )
    return _Replaced(f"{text}: it is another log")


# --- the folds of this worker
# --------------------------------------------------------------------------------------------------

_FOLDED: OrderedDict[str, Builder] = OrderedDict()


def _builder(task: Task, cluster: str | None) -> Builder:
    """The fold of the tables, from the worker if they are as it left them."""
    name = task.source.name or cluster
    if not name:
        raise ValueError(
            f"{task.source.address}: the id of its cluster is not known: give the source a name"
        )
    if not NAME.fullmatch(name):
        raise ValueError(f"{task.source.address} has the cluster id {name!r}: give it a name")
    path = cluster_path(task.root, name)
    found = _FOLDED.pop(path, None)
    try:
        if found is None:
            found = Builder(path, task.format, fail_fast=task.fail_fast, cluster=cluster)
        found.check_cluster(cluster)
    except OtherClusterError as error:
        raise _Replaced(str(error)) from None
    _FOLDED[path] = found
    return found


def _trim() -> None:
    while len(_FOLDED) > _FOLDS or sum(one.entities for one in _FOLDED.values()) > _ENTITIES:
        _FOLDED.popitem(last=False)
