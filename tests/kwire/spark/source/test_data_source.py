"""Planning of batches, micro-batches and filters, against a log that is only numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from pyspark.sql import datasource as api
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from kwire.spark.source.data_source import (
    BatchReader,
    MetadataSource,
    OffsetRange,
    PushdownReader,
    PushdownSource,
    StreamReader,
)
from kwire.spark.source.offsets import DataLossError, LogState, Position
from kwire.spark.source.options import Place, settings_of

SERVER = {"bootstrap.servers": "a:1"}


class Log:
    """Stands in for ServerLog: one epoch, from ``start`` to ``end``."""

    def __init__(self, end: int, start: int = 0, cluster: str = "c") -> None:
        self.now = LogState(cluster, "t", start, end, leader_epoch=1)
        self.late_ms, self.closed = 0, False

    def grow(self, **to: Any) -> None:
        self.now = dataclasses.replace(self.now, **to)

    def state(self) -> LogState:
        return self.now

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        return 1, self.now.end

    def offset_of(self, place: Place, state: LogState) -> int:
        return {"earliest": state.start, "latest": state.end}.get(place.name, place.offset or 0)

    def position(self, offset: int, state: LogState, first: int | None = None) -> Position:
        time = self.time_before(offset) if offset > state.start else None
        return Position(state.cluster_id, state.topic_id, 1, offset, first, time)

    def time_before(self, offset: int) -> int | None:
        return offset * 1000 + self.late_ms

    def close(self) -> None:
        self.closed = True


def stream(log: Log, **options: str) -> StreamReader:
    """A reader as Spark starts it, again and again, on the same log."""
    reader = StreamReader(settings_of({**SERVER, **options}))
    reader.__dict__["_log"] = log
    return reader


def ranges(
    reader: StreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int]]:
    found = []
    for part in reader.partitions(start, end):
        assert isinstance(part, OffsetRange)
        found.append((part.start, part.end))
    return found


def test_micro_batches_go_from_one_position_to_the_next() -> None:
    log = Log(100)
    reader = stream(log, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    limit, at, seen = reader.getDefaultReadLimit(), reader.initialOffset(), []
    assert limit == ReadMaxRows(40)
    while (end := reader.latestOffset(at, limit)) != at:
        seen += ranges(reader, at, end)
        at = end
    assert seen == [(0, 40), (40, 80), (80, 100)]
    assert ranges(reader, at, at) == []
    assert stream(log).getDefaultReadLimit() == ReadAllAvailable()
    assert reader.reportLatestOffset() == log.position(100, log.state()).to_json()


def test_available_now_ends_where_the_log_ended() -> None:
    log = Log(100)
    reader = stream(log, startingOffsets="90")
    reader.prepareForTriggerAvailableNow()
    log.grow(end=150)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert end["offset"] == 100
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_the_first_micro_batch_run_again_begins_where_it_began() -> None:
    log = Log(100)
    start = stream(log).initialOffset()
    log.grow(end=130)
    end = stream(log).latestOffset(start, ReadAllAvailable())
    assert ranges(stream(log), start, end) == [(100, 130)]
    # Killed now, and started again when there is more.
    log.grow(end=170)
    again = stream(log)
    assert ranges(again, again.initialOffset(), end) == [(100, 130)]
    assert ranges(again, end, again.latestOffset(end, ReadAllAvailable())) == [(130, 170)]
    log.grow(start=110)
    with pytest.raises(DataLossError, match="100 to 109 are gone"):
        ranges(again, again.initialOffset(), end)


def test_a_loss_fails_or_is_borne() -> None:
    old, new = Log(100), Log(60, cluster="d")
    start = old.position(50, old.state()).to_json()
    end = old.position(100, old.state()).to_json()
    sentence = r"cluster c .* cluster d.* \(a:1\); take a new checkpoint"
    with pytest.raises(DataLossError, match=sentence):
        stream(new).latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataLossError, match=sentence):
        stream(new).partitions(start, end)
    bearing = stream(new, failOnDataLoss="false")
    # The plan for the old log is empty; the new log is read from its first offset, within the
    # limit.
    assert ranges(bearing, start, end) == []
    assert ranges(bearing, end, bearing.latestOffset(end, ReadMaxRows(20))) == [(0, 20)]
    new.grow(start=30, cluster_id="c")
    assert ranges(
        bearing, new.position(10, new.state()).to_json(), new.position(40, new.state()).to_json()
    ) == [(30, 40)]


def test_a_start_beyond_the_log() -> None:
    with pytest.raises(
        DataLossError, match="startingOffsets is 101, and the log goes from 0 to 100"
    ):
        stream(Log(100), startingOffsets="101").initialOffset()
    bearing = stream(Log(100), startingOffsets="101", failOnDataLoss="false")
    assert bearing.initialOffset()["offset"] == 100


def test_slices_of_a_micro_batch() -> None:
    reader = stream(Log(100), startingOffsets="earliest", minPartitions="3")
    start = reader.initialOffset()
    assert ranges(reader, start, reader.latestOffset(start, ReadAllAvailable())) == [
        (0, 33),
        (33, 66),
        (66, 100),
    ]


def test_stop_closes_the_connections() -> None:
    log = Log(1)
    stream(log).stop()
    assert log.closed
    StreamReader(settings_of(SERVER)).stop()


def test_a_batch_is_planned_within_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kwire.spark.source.data_source.ServerLog", lambda settings: Log(100, start=20)
    )

    def planned(
        reader: type[BatchReader] = BatchReader, filters: tuple[Any, ...] = (), **options: str
    ) -> list[Any]:
        one = reader(settings_of({**SERVER, **options}))
        one.pushFilters(list(filters))
        parts: Any = one.partitions()
        return [(part.start, part.end) for part in parts]

    assert planned() == [(20, 100)]
    assert planned(startingOffsets="30", endingOffsets="40") == [(30, 40)]
    assert planned(startingOffsets="40", endingOffsets="30") == []
    with pytest.raises(
        DataLossError, match="startingOffsets is 10, and the log at a:1 goes from 20 to 100"
    ):
        planned(startingOffsets="10")
    assert planned(startingOffsets="10", failOnDataLoss="false") == [(20, 100)]
    with pytest.raises(ValueError, match="maxOffsetsPerTrigger is for streams"):
        planned(maxOffsetsPerTrigger="10")
    column = ("offset",)
    for one, expected in (
        (api.EqualTo(column, 50), [(50, 51)]),
        (api.GreaterThan(column, 50), [(51, 100)]),
        (api.GreaterThanOrEqual(column, 50), [(50, 100)]),
        (api.LessThan(column, 50), [(20, 50)]),
        (api.LessThanOrEqual(column, 50), [(20, 51)]),
        (api.GreaterThan(column, 500), []),
        (api.LessThan(column, -5), []),
        (api.GreaterThan(("version",), 50), [(20, 100)]),
    ):
        assert planned(PushdownReader, (one,)) == expected
    assert planned(PushdownReader, (api.GreaterThan(column, 30), api.LessThan(column, 40))) == [
        (31, 40)
    ]
    assert planned(PushdownReader, (api.GreaterThan(column, 40), api.LessThan(column, 30))) == []


def test_filters_of_types_are_handed_back_to_spark() -> None:
    reader = PushdownReader(settings_of({**SERVER, "recordTypes": "TopicRecord,ConfigRecord"}))
    filters: list[api.Filter] = [
        api.In(("type",), ("TOPIC_RECORD", "NO_OP_RECORD", "nothing")),
        api.Not(api.EqualTo(("type",), "TOPIC_RECORD")),
        api.EqualTo(("version",), 0),
    ]
    assert list(reader.pushFilters(filters)) == filters
    assert reader.settings.only == (b"\x01\x02",)
    about = PushdownReader(settings_of({**SERVER, "recordTypes": "TopicRecord,ConfigRecord"}))
    list(about.pushFilters([api.In(("entity",), ("topic", "broker", "nothing"))]))
    assert about.settings.only == (b"\x01\x02",)
    reader.pushFilters([api.EqualTo(("type",), None)])
    assert not reader.settings.only and reader.settings.only is not None


def test_streams_refuse_options_of_batches() -> None:
    for options, sentence in (
        ({"path": "/x"}, "path is for spark.read"),
        ({**SERVER, "endingOffsets": "5"}, "a stream has no end"),
    ):
        with pytest.raises(ValueError, match=sentence):
            MetadataSource(options).streamReader(None)


def test_the_source_that_takes_filters_is_another() -> None:
    assert MetadataSource.name() == PushdownSource.name() == "kwire"
    plain, pushing = MetadataSource(SERVER).reader(None), PushdownSource(SERVER).reader(None)
    # Spark looks at whether the method is that of its own class.
    assert type(plain).pushFilters is api.DataSourceReader.pushFilters
    assert type(pushing).pushFilters is not api.DataSourceReader.pushFilters
    assert list(plain.read(api.InputPartition(None))) == []


def test_stream_fails_where_records_of_a_snapshot_are_at_its_position() -> None:
    """The log's start passed the position, and a snapshot's records have its offset now."""
    log = Log(100)
    reader = stream(log, startingOffsets="earliest")
    limit, begin = reader.getDefaultReadLimit(), reader.initialOffset()
    at = reader.latestOffset(begin, limit)
    log.grow(start=60, end=200)
    log.late_ms = 7
    with pytest.raises(DataLossError, match="before offset 100 is not the one that was read"):
        reader.latestOffset(at, limit)
    going_on = stream(log, startingOffsets="earliest", failOnDataLoss="false")
    assert ranges(going_on, at, going_on.latestOffset(at, limit)) == [(60, 200)]


def test_checkpoint_without_a_time_is_continued() -> None:
    log = Log(100)
    reader = stream(log, startingOffsets="earliest")
    at = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    del at["time"]
    log.grow(end=120)
    log.late_ms = 7
    assert reader.latestOffset(at, reader.getDefaultReadLimit())["offset"] == 120
