"""Follows several clusters as one stream of Spark: a micro-batch has a task (``bring``) for each
source that has news.

The offset of the stream is, for each source, the log that the planner saw. A source that does not
answer keeps its offset, with a condition, so that it neither fails nor delays the others. The
position of each cluster is in its tables, not here: a micro-batch that runs again adds nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource as api

from kwire.errors import WireError
from kwire.spark.source.fetch import only_no_ops
from kwire.spark.source.files import find_files
from kwire.spark.source.offsets import LogState
from kwire.spark.source.server import ServerError, ServerLog
from kwire.spark.table.bring import Task, bring
from kwire.spark.table.conditions import Conditions, Present
from kwire.spark.table.places import cluster_path
from kwire.spark.table.several import COLUMN, noted, outcome_batch
from kwire.spark.table.sources import Source
from kwire.spark.table.store import Store, TablesError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: The state of a log, or a text for a directory; or a condition; or neither without an answer yet.
_Found = tuple[LogState | str | None, tuple[str, str] | None]
#: So long a micro-batch waits for the answers of sources that answered before; later ones count for
#: the next.
_WAIT_S: Final = 1.0
#: A source that has not answered for this long has a condition.
_LATE_S: Final = 15.0
#: A poll asks for more than the end of the log once in this time. Records that change nothing, of
#: which an idle cluster writes two a second, are no news until then.
_WHOLE_S: Final = 30.0
_PATIENCE_S: Final = 2.0
_THREADS: Final = 64
_RETRY_S: Final = (1.0, 60.0)


def follow(spark: SparkSession, tasks: Sequence[Task], limit: int) -> DataFrame:
    """A stream of the outcomes of ``tasks``, which runs them; at most ``limit`` offsets of each
    source in a micro-batch.
    """
    spark.dataSource.register(ClustersSource)
    options = {
        "sources": json.dumps([[one.source.name, dict(one.source.options)] for one in tasks]),
        "root": tasks[0].root,
        "format": tasks[0].format,
        "mode": "FAILFAST" if tasks[0].fail_fast else "PERMISSIVE",
        "limit": str(limit),
    }
    return spark.readStream.format(ClustersSource.name()).options(**options).load()


@dataclass
class Noted:
    """The function of foreachBatch: it runs the tasks, and notes their outcomes."""

    root: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        noted(self.root, batch)


class ClustersSource(api.DataSource):
    """The data source behind :func:`follow`."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @classmethod
    def name(cls) -> str:
        return "kwire_clusters"

    def schema(self) -> str:
        return f"{COLUMN} string"

    def streamReader(self, schema: Any) -> api.DataSourceStreamReader:
        get: Any = self.options.get
        tasks = [
            Task(Source(name, options), get("root"), get("format"), get("mode") == "FAILFAST")
            for name, options in json.loads(get("sources"))
        ]
        return ClustersReader(tasks, int(get("limit")))


@dataclass
class OneTask(api.InputPartition):
    """The task of one source."""

    task: Task


class ClustersReader(api.DataSourceStreamReader):
    """Plans micro-batches on the driver, and runs a task on an executor."""

    def __init__(self, tasks: Sequence[Task], limit: int) -> None:
        self._tasks = {one.source.key: one for one in tasks}
        self._limit = limit

    @cached_property
    def _polls(self) -> dict[str, _Poll]:
        return {key: _Poll(task.source) for key, task in self._tasks.items()}

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(min(_THREADS, len(self._tasks)), "kwire-poll")

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:
        begun = [(poll, poll.begin(self._pool)) for poll in self._polls.values()]
        wait([answer for poll, answer in begun if not poll.failing], _WAIT_S)
        failed = Conditions.read(next(iter(self._tasks.values())).root).present
        return {
            key: self._next(key, poll.found(), start.get(key), failed.get(key, Present()))
            for key, poll in self._polls.items()
        }

    def _next(
        self, key: str, found: _Found, before: dict[str, Any] | None, last: Present
    ) -> dict[str, Any] | None:
        """The offset of one source: the one before as long as nothing is new, or its task has
        failed and waits for the next attempt.
        """
        seen, condition = found
        if seen is None and condition is None:
            return before
        kind = before["condition"][0] if before and before["condition"] else None
        if condition is not None:
            if condition[0] == kind:
                return before
            return {"log": before and before["log"], "end": None, "condition": condition}
        if last.condition is not None and time.time() - last.at < _pause(last.failures):
            return before
        log: Any = asdict(seen) if isinstance(seen, LogState) else seen
        end: int | None = None
        if isinstance(seen, LogState):
            going_on = before if last.condition is None else None
            end = min(seen.end, self._at(key, seen, going_on) + self._limit)
        return {"log": log, "end": end, "condition": None, "attempt": last.failures}

    def _at(self, key: str, seen: LogState, before: dict[str, Any] | None) -> int:
        """The offset from which the next task reads."""
        if before and before["end"] is not None and before["log"]["cluster_id"] == seen.cluster_id:
            return max(int(before["end"]), seen.start)
        return max(_position(self._tasks[key], seen), seen.start)

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[api.InputPartition]:
        return [
            OneTask(self._planned(task, end[key]))
            for key, task in self._tasks.items()
            if end.get(key) and end[key] != start.get(key)
        ]

    def _planned(self, task: Task, at: dict[str, Any]) -> Task:
        log, condition = at["log"], at["condition"]
        return Task(
            task.source,
            task.root,
            task.format,
            task.fail_fast,
            LogState(**log) if isinstance(log, dict) else None,
            at["end"],
            tuple(condition) if condition else None,
        )

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OneTask):
            yield outcome_batch(bring(partition.task))

    def stop(self) -> None:
        if "_pool" in self.__dict__:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for poll in self._polls.values():
                poll.close()


def _pause(failures: int) -> float:
    """The time (s) before the next attempt after so many failures."""
    return float(min(_RETRY_S[0] * 2**failures, _RETRY_S[1]))


def _position(task: Task, seen: LogState) -> int:
    """The next offset of the tables, 0 if there are none."""
    name = task.source.name or seen.cluster_id
    try:
        return Store(cluster_path(task.root, name)).manifest.next_offset
    except TablesError:
        return 0  # the task reports it


class _Poll:
    """Asks one source, at most one question at a time."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._log: ServerLog | None = None
        self._state: LogState | None = None
        self._whole, self._checked = 0.0, 0
        self.failing = False
        self._answer: Future[LogState | str] | None = None
        self._begun = 0.0

    def begin(self, pool: ThreadPoolExecutor) -> Future[LogState | str]:
        """Ask, unless the last question has no answer yet."""
        if self._answer is None:
            self._begun, self._answer = time.monotonic(), pool.submit(self._ask)
        return self._answer

    def found(self) -> _Found:
        """The answer to the last question."""
        if self._answer is None or not self._answer.done():
            late = time.monotonic() - self._begun > _LATE_S
            self.failing |= late
            said = f"{self._source.address} has not answered for {_LATE_S:.0f} s"
            return None, ("UNREACHABLE", said) if late else None
        answer, self._answer = self._answer, None
        try:
            seen, self.failing = answer.result(), False
            return seen, None
        except (ServerError, OSError, WireError) as error:
            self.failing = True
            self.close()
            return None, ("UNREACHABLE", f"{error}; its tables stay as they are until it answers")

    def close(self) -> None:
        """Close the connections."""
        log, self._log, self._whole = self._log, None, 0.0
        if log is not None:
            log.close()

    def _ask(self) -> LogState | str:
        if self._source.directory is not None:
            return _signature(self._source.directory)
        if self._log is None:
            self._log = ServerLog(self._source.settings, patience_s=_PATIENCE_S)
        if self._state is None or time.monotonic() - self._whole > _WHOLE_S:
            return self._all()
        end = self._log.end()
        if end < self._checked:
            return self._all()
        at, self._checked = self._checked, end
        if end > at and not only_no_ops(self._log, self._source.settings, at, end):
            self._state = replace(self._state, end=end)
        return self._state

    def _all(self) -> LogState:
        assert self._log is not None
        self._state, self._whole = self._log.state(), time.monotonic()
        self._checked = self._state.end
        return self._state


def _signature(directory: str) -> str:
    """A text that changes with the files of a log directory. Raises FileNotFoundError."""
    files = find_files([directory], "segments")
    return json.dumps([[os.path.basename(file), os.stat(file).st_size] for file in files])
