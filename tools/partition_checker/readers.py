"""Notes what consumers of a topic get while brokers fail, one consumer an isolation level."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tools.broker_kills.judge import Kept
from tools.broker_kills.reading import PARTITIONS
from tools.partition_checker.judge import Seen, reading_faults

_POLL_S = 0.2


class Reader(threading.Thread):
    """Reads all partitions of a topic from their beginning until :meth:`end`; it belongs to no
    group. ``seen`` has what it got, by partition, ``failed`` why it gave up.
    """

    def __init__(self, bootstrap: str, topic: str, isolation: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.isolation = isolation
        self.seen: dict[int, list[Seen]] = defaultdict(list)
        self.failed: list[str] = []
        self._ended = threading.Event()
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{topic}-{isolation}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            # An offset that is out of range is a record that was taken back.
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.assign([TopicPartition(self.topic, one, 0) for one in range(PARTITIONS)])
        while not self._ended.is_set():
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            error, partition = message.error(), message.partition()
            if error is not None:
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.failed.append(f"{self.topic}-{partition}: {error.str()}")
                continue
            offset, value = message.offset(), message.value()
            assert partition is not None and offset is not None and value is not None
            self.seen[partition].append(Seen(offset, value.decode()))
        consumer.close()


def faults_of(reader: Reader, final: Mapping[int, Sequence[Kept]]) -> list[str]:
    """Return what is wrong with what a reader got, once the records that stay are known, by
    partition.
    """
    found = list(reader.failed)
    for partition, seen in sorted(reader.seen.items()):
        name = f"{reader.isolation} of {reader.topic}-{partition}"
        kept = [Seen(one.offset, one.value or "") for one in final.get(partition, ())]
        found += reading_faults(name, seen, kept)
    return found
