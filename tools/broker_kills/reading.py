"""Reads what is left of a topic, by a consumer and from the files of a broker."""

from __future__ import annotations

import bisect
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kwire.records import iter_batches
from tools.broker_kills.judge import Kept, Numbered, Session

PARTITIONS: Final = 4
#: How long a client waits for an answer, s.
CLIENT_S: Final = 60.0
_POLL_S: Final = 1.0


def records(bootstrap: str, topic: str) -> dict[int, list[Kept]]:
    """Return every committed record of a topic, by partition. Raises TimeoutError when none comes
    for :data:`CLIENT_S`, and a partition has not ended.
    """
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
    moved_at = time.monotonic()
    while len(ended) < PARTITIONS:
        message = consumer.poll(_POLL_S)
        if time.monotonic() - moved_at > CLIENT_S:
            raise TimeoutError(f"{topic} cannot be read to its end: {sorted(ended)} are")
        if message is None:
            continue
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            continue  # a broker is down, say, and librdkafka tries again
        moved_at = time.monotonic()
        assert partition is not None
        if error is not None:
            ended.add(partition)
        else:
            assert offset is not None
            found[partition].append(Kept(offset, _text(message.key()), _text(message.value())))
    consumer.close()
    return found


def numbered(kept: Sequence[Kept], directory: Path) -> list[Numbered]:
    """Return the records of a producer that numbers them, ``directory`` has the log that they are
    in: consumers are not told who sent a record. Raises DecodeError.
    """
    files = sorted(directory.glob("*.log"))
    batches = [batch for file in files for batch in iter_batches(file.read_bytes())]
    bases = [batch.base_offset for batch in batches]
    found: list[Numbered] = []
    for one in kept:
        batch = batches[bisect.bisect_right(bases, one.offset) - 1]
        session = Session(batch.producer_id, batch.producer_epoch)
        found.append(Numbered(one.offset, int(one.value or ""), session))
    return found


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
