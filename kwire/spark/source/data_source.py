"""Registers ``format("kwire")``: the metadata topic as a data source of Spark's own Python API,
without a jar.

    from kwire.spark import register
    register(spark)
    spark.read.format("kwire").option("bootstrap.servers", "localhost:9092").load()

Batch and streaming from a server, batch from files. This module plans; ``server``, ``fetch`` and
``files`` read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import datasource as api
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kwire.errors import UnknownApi
from kwire.spark.entities import record_types_of
from kwire.spark.record_types import type_prefix
from kwire.spark.source.fetch import read_range
from kwire.spark.source.files import find_files, read_file
from kwire.spark.source.offsets import DataLossError, LogState, Position, loss_at, slices
from kwire.spark.source.options import Place, Settings, settings_of
from kwire.spark.source.rows import Rows, schema_of
from kwire.spark.source.server import ServerLog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_OFFSET_MAX = (1 << 63) - 1
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make ``format("kwire")`` known to ``spark``.

    Filters on ``type``, ``entity`` and ``offset`` are pushed down if
    ``spark.sql.python.filterPushdown.enabled`` is true now: Spark refuses a source that could take
    filters while it is false, so call this again after changing it.
    """
    enabled = spark.conf.get(_PUSHDOWN, "false") == "true"
    spark.dataSource.register(PushdownSource if enabled else MetadataSource)


class MetadataSource(api.DataSource):
    """The data source behind ``format("kwire")`` and its options."""

    def __init__(self, options: Any) -> None:
        self.options = options

    @cached_property
    def settings(self) -> Settings:
        """The options, checked. Raises ValueError and UnknownApi."""
        return settings_of(self.options)

    @classmethod
    def name(cls) -> str:
        return "kwire"

    def schema(self) -> str:
        return schema_of(self.settings.keep)

    def reader(self, schema: Any) -> api.DataSourceReader:
        return BatchReader(self.settings)

    def streamReader(self, schema: Any) -> api.DataSourceStreamReader:
        return StreamReader(self.settings)


class PushdownSource(MetadataSource):
    """The same for sessions that push filters down to Python sources."""

    def reader(self, schema: Any) -> api.DataSourceReader:
        return PushdownReader(self.settings)


@dataclass
class OffsetRange(api.InputPartition):
    """The offsets of the topic that one task reads: ``start`` <= offset < ``end``."""

    start: int
    end: int


@dataclass
class OneFile(api.InputPartition):
    """The files of a directory that one task reads."""

    path: str


class _Reader:
    """Reads the part of one task, on an executor."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.offsets = range(_OFFSET_MAX)

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, OffsetRange):
            rows = Rows(self.settings)
            for records in read_range(self.settings, partition.start, partition.end):
                yield from rows.of(records)
        elif isinstance(partition, OneFile):
            yield from read_file(partition.path, self.settings, self.offsets)
        # Else it is the one empty partition that Spark makes of an empty plan.


class BatchReader(_Reader, api.DataSourceReader):
    """``spark.read``: a range of the topic, or files."""

    def partitions(self) -> Sequence[api.InputPartition]:
        settings = self.settings
        if settings.max_offsets_per_trigger is not None:
            raise ValueError(
                "maxOffsetsPerTrigger is for streams: a batch is bounded by endingOffsets"
            )
        if settings.paths:
            return [OneFile(path) for path in find_files(settings.paths, settings.files)]
        log = ServerLog(settings)
        try:
            state = log.state()
            start = log.offset_of(settings.start or Place("earliest"), state)
            end = log.offset_of(settings.end or Place("latest"), state)
        finally:
            log.close()
        start, end = self._in_the_log(start, end, state)
        start, end = max(start, self.offsets.start), min(end, self.offsets.stop)
        return [OffsetRange(*part) for part in slices(start, end, settings.min_partitions)]

    def _in_the_log(self, start: int, end: int, state: LogState) -> tuple[int, int]:
        """Return the requested range within the log. Raises DataLossError if the log lacks a part,
        unless the options allow that.
        """
        for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if self.settings.fail_on_data_loss and not state.start <= offset <= state.end:
                raise DataLossError(
                    f"{name} is {offset}, and the log at {self.settings.bootstrap} goes from"
                    f" {state.start} to {state.end}; take offsets in between, or"
                    " failOnDataLoss=false to read what there is"
                )
        return max(start, state.start), min(end, state.end)


class PushdownReader(BatchReader):
    """The same, with filters on ``type``, ``entity`` and ``offset`` taken before anything is
    decoded.

    Spark evaluates all filters again, because a damaged record can have the first bytes of a type
    without being of that type.
    """

    _BOUNDS: ClassVar[dict[type[api.Filter], tuple[bool, bool, int]]] = {
        # (bounds from below, bounds from above, what to add to a bound from below or take from one
        # above)
        api.EqualTo: (True, True, 0),
        api.GreaterThanOrEqual: (True, False, 0),
        api.GreaterThan: (True, False, 1),
        api.LessThanOrEqual: (False, True, 0),
        api.LessThan: (False, True, 1),
    }

    def pushFilters(self, filters: list[api.Filter]) -> Iterable[api.Filter]:
        for one in filters:
            attribute, value = getattr(one, "attribute", None), getattr(one, "value", None)
            if attribute in (("type",), ("entity",)) and isinstance(one, api.EqualTo | api.In):
                names = one.value if isinstance(one, api.In) else (one.value,)
                about = [name for entity in names for name in record_types_of(str(entity))]
                self._take_types(names if attribute == ("type",) else about)
            elif attribute == ("offset",) and type(one) in self._BOUNDS and isinstance(value, int):
                below, above, step = self._BOUNDS[type(one)]
                start = max(self.offsets.start, value + step) if below else self.offsets.start
                stop = min(self.offsets.stop, value - step + 1) if above else self.offsets.stop
                self.offsets = range(start, max(start, stop))
        return filters

    def _take_types(self, names: Iterable[Any]) -> None:
        prefixes = tuple(prefix for name in names if (prefix := _prefix_or_none(name)))
        only = self.settings.only
        self.settings = replace(
            self.settings,
            only=prefixes if only is None else tuple(p for p in prefixes if p in only),
        )


def _prefix_or_none(name: Any) -> bytes | None:
    """Return the first bytes of the records of a type; None for a name that is no record type,
    which matches no record.
    """
    try:
        return type_prefix(str(name))
    except UnknownApi:
        return None


class StreamReader(_Reader, api.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """``spark.readStream``: the topic from a server, with positions in the checkpoint that identify
    their log.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if settings.paths:
            raise ValueError(
                "path is for spark.read; a stream reads from a server: give bootstrap.servers"
            )
        if settings.end is not None:
            raise ValueError(
                "endingOffsets and endingTimestamp are for spark.read: a stream has no end"
            )
        self._target: int | None = None

    @cached_property
    def _log(self) -> ServerLog:
        return ServerLog(self.settings)

    def stop(self) -> None:
        if "_log" in self.__dict__:
            self._log.close()

    def initialOffset(self) -> dict[str, Any]:
        state = self._log.state()
        offset = self._log.offset_of(self.settings.start or Place("latest"), state)
        if not state.start <= offset <= state.end:
            self._lost(
                f"startingOffsets is {offset}, and the log goes from {state.start} to {state.end}"
            )
            offset = min(max(offset, state.start), state.end)
        return self._log.position(offset, state, first=offset).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self.settings.max_offsets_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._log.state().end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        state = self._log.state()
        return self._log.position(state.end, state).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        state, position = self._log.state(), Position.of(start)
        first = self._first_readable(position, state)
        end = state.end if self._target is None else min(state.end, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, first + limit.max_rows)
        if end <= first == position.offset:
            return start
        return self._log.position(
            max(first, end), state, first=first if position.initial else None
        ).to_json()

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[api.InputPartition]:
        if start == end:
            return []
        state = self._log.state()
        since, until = Position.of(start), Position.of(end)
        if since.initial and until.first is not None:
            since = replace(until, epoch=-1, time=None, offset=until.first)
        first = self._first_readable(since, state)
        # A micro-batch that was planned before a restart ends where the log may have been another.
        last = min(until.offset, self._first_readable(until, state))
        return [
            OffsetRange(*part)
            for part in slices(first, max(first, last), self.settings.min_partitions)
        ]

    def _first_readable(self, position: Position, state: LogState) -> int:
        """Return the offset of ``position``, or the next readable one if it is lost and the options
        allow that.
        """
        loss = loss_at(position, state, self._log.end_of_epoch, self._log.time_before)
        if loss is None:
            return position.offset
        self._lost(loss.sentence)
        return loss.resume

    def _lost(self, sentence: str) -> None:
        if self.settings.fail_on_data_loss:
            raise DataLossError(
                f"{sentence} ({self.settings.bootstrap}); take a new checkpoint,"
                " or failOnDataLoss=false to go on with what there is"
            )
