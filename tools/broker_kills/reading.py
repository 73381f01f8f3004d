"""Reads what is left of a topic."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from tools.broker_kills.judge import Kept

PARTITIONS: Final = 4
#: How long a client waits for an answer, s.
CLIENT_S: Final = 60.0


def records(bootstrap: str, topic: str) -> dict[int, list[Kept]]:
    """Return every committed record of a topic, by partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "checker",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer, ended = Consumer(settings), set[int]()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[Kept]] = defaultdict(list)
    while len(ended) < PARTITIONS:
        message = consumer.poll(CLIENT_S)
        assert message is not None, f"{topic} cannot be read to its end"
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        if message.error() is not None:
            ended.add(partition)
        else:
            assert offset is not None
            found[partition].append(Kept(offset, _text(message.key()), _text(message.value())))
    consumer.close()
    return found


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
