"""Readers that are Python libraries, used as their manuals show: confluent-kafka, kafka-python,
aiokafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from tests.interop.reading import Reader, Record


class ConfluentKafka(Reader):
    """confluent-kafka, with the librdkafka that it ships."""

    client = "confluent-kafka"
    #: More of its configuration.
    settings: ClassVar[Mapping[str, str | int]] = {}

    def read(self) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group or "no-group",
                "enable.auto.commit": self.group is not None,
                "auto.offset.reset": "earliest",
                **self.settings,
            }
        )
        try:
            if self.group is None:
                consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
            else:
                consumer.subscribe([self.topic])
            while not self.stopping.is_set():
                for message in consumer.consume(num_messages=1000, timeout=0.1):
                    if message.error():
                        raise KafkaException(message.error())
                    _, timestamp = message.timestamp()
                    offset = message.offset()
                    assert offset is not None
                    self.records.append(Record(offset, timestamp, message.key(), message.value()))
        finally:
            consumer.close()


class KafkaPython(Reader):
    """kafka-python, the pure Python client."""

    client = "kafka-python"

    def read(self) -> None:
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=self.group is not None,
        )
        try:
            if self.group is None:
                partition = TopicPartition(self.topic, 0)
                consumer.assign([partition])
                consumer.seek_to_beginning(partition)
            else:
                consumer.subscribe([self.topic])
            while not self.stopping.is_set():
                # Not shorter: a poll that ends while its group joins again leaves kafka-python
                # without its partitions for good (docs/clients.md), and with 100 ms it does on one
                # start in forty, on real Kafka too.
                for messages in consumer.poll(timeout_ms=1000, max_records=5000).values():
                    self.records.extend(
                        Record(m.offset, m.timestamp, m.key, m.value) for m in messages
                    )
        finally:
            consumer.close()


class AioKafka(Reader):
    """aiokafka, the asyncio client."""

    client = "aiokafka"

    def read(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=self.group is not None,
        )
        await consumer.start()
        try:
            if self.group is None:
                partition = TopicPartition(self.topic, 0)
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
            else:
                consumer.subscribe([self.topic])
            while not self.stopping.is_set():
                for messages in (await consumer.getmany(timeout_ms=100, max_records=5000)).values():
                    self.records.extend(
                        Record(m.offset, m.timestamp, m.key, m.value) for m in messages
                    )
        finally:
            await consumer.stop()
