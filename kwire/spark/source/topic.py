"""Registers ``format("kwire-topic")``: a view topic or the audit topic of a server as a batch, by
kafka-python and without a jar. It reads text; ``kwire.spark.topics`` makes columns of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import datasource as api

from kwire.spark.source.options import Settings, check_names, settings_of
from kwire.spark.source.server import ServerError, sentences

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "kwire-topic"
_COLUMNS: Final = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "key": pa.string(),
    "value": pa.string(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_POLL_MS: Final = 500


def register_topic(spark: SparkSession) -> None:
    """Make ``format("kwire-topic")`` known to ``spark``."""
    spark.dataSource.register(TopicSource)


class TopicSource(api.DataSource):
    """The data source behind ``format("kwire-topic")``: its option ``topic`` names the topic; the
    others are those with which ``format("kwire")`` connects to a server.
    """

    def __init__(self, options: Any) -> None:
        given = {name.lower(): value for name, value in dict(options).items()}
        self._topic = given.pop("topic", "")
        self._options = given

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return (
            "partition int, offset bigint, timestamp timestamp, key string, value string,"
            " headers array<struct<key: string, value: binary>>"
        )

    def reader(self, schema: Any) -> api.DataSourceReader:
        if not self._topic:
            raise ValueError(f"{FORMAT} needs the option topic, such as __cluster_metadata.topics")
        check_names(FORMAT, self._options, ("topic", "bootstrap.servers", "pollTimeoutMs"))
        return TopicReader(self._topic, settings_of(self._options))


@dataclass
class OnePartition(api.InputPartition):
    """The offsets of a partition that one task reads: ``start`` <= offset < ``end``."""

    number: int
    start: int
    end: int


class TopicReader(api.DataSourceReader):
    """``spark.read``: what the topic has now."""

    def __init__(self, topic: str, settings: Settings) -> None:
        self._topic, self._settings = topic, settings

    def partitions(self) -> Sequence[api.InputPartition]:
        from kafka import TopicPartition

        with sentences(self._settings):
            consumer = self._consumer()
            try:
                numbers = _partitions(consumer, self._topic)
                found = [TopicPartition(self._topic, number) for number in sorted(numbers)]
                starts, ends = consumer.beginning_offsets(found), consumer.end_offsets(found)
            finally:
                consumer.close()
        return [OnePartition(one.partition, starts[one], ends[one]) for one in found]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, OnePartition):
            return  # the one empty partition that Spark makes of an empty plan
        from kafka import TopicPartition

        place = TopicPartition(self._topic, partition.number)
        with sentences(self._settings):
            consumer = self._consumer()
            try:
                consumer.assign([place])
                consumer.seek(place, partition.start)
                deadline = self._deadline()
                while consumer.position(place) < partition.end:
                    records = consumer.poll(timeout_ms=_POLL_MS).get(place, [])
                    if records:
                        deadline = self._deadline()
                        yield _batch([one for one in records if one.offset < partition.end])
                    elif time.monotonic() > deadline:
                        raise ServerError(
                            f"{self._settings.bootstrap} gave nothing of {self._topic} behind"
                            f" offset {consumer.position(place)}"
                        )
            finally:
                consumer.close()

    def _consumer(self) -> Any:
        from kafka import KafkaConsumer

        client: Mapping[str, Any] = self._settings.client
        return KafkaConsumer(
            bootstrap_servers=self._settings.bootstrap.split(","),
            group_id=None,
            enable_auto_commit=False,
            **client,
        )

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.poll_timeout_ms / 1000


def _partitions(consumer: Any, topic: str) -> set[int]:
    """The partitions of a topic. Raises ServerError. View topics are not in the list of all topics,
    so they are asked for by name, which a first position does.
    """
    from kafka import TopicPartition

    found: set[int] = consumer.partitions_for_topic(topic) or set()
    if not found:
        first = TopicPartition(topic, 0)
        consumer.assign([first])
        consumer.end_offsets([first])
        found = {0}
    return found


def _batch(records: Sequence[Any]) -> pa.RecordBatch:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode("utf-8", "replace")

    columns = [
        [one.partition for one in records],
        [one.offset for one in records],
        [one.timestamp * 1000 for one in records],
        [text(one.key) for one in records],
        [text(one.value) for one in records],
        [[{"key": key, "value": value} for key, value in one.headers] or None for one in records],
    ]
    arrays = [pa.array(one, of) for one, of in zip(columns, _COLUMNS.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS))
