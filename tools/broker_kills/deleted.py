"""Writers to topics whose old records go: one that is compacted, one with a short retention."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tools.broker_kills.judge import compaction_faults, retention_faults
from tools.broker_kills.reading import CLIENT_S, PARTITIONS, records
from tools.broker_kills.writers import Writer, idempotent_producer

#: Values are as long as this, so that segments are filled soon.
_PAD: Final = "." * 1000
#: Bytes of a record in the log, at most: its batch may have no other.
_RECORD_BYTES: Final = 1100


class Keyed(Writer):
    """Writes new values, and tombstones, of few keys to a compacted topic."""

    #: Keys of a partition.
    _KEYS: Final = 40
    #: Each so manieth record is a tombstone.
    _DELETED: Final = 7

    def __init__(self, bootstrap: str, topic: str, pause_s: float) -> None:
        super().__init__(bootstrap, topic)
        self._pause_s = pause_s
        self._acknowledged: dict[int, dict[int, tuple[str, str | None]]] = defaultdict(dict)
        self._kept = 0

    def work(self) -> None:
        producer, number = idempotent_producer(self.bootstrap), 0
        while not self.ended.is_set():
            key = f"key-{number // PARTITIONS % self._KEYS}"
            value = None if number % self._DELETED == 0 else f"{number}"
            try:
                producer.produce(
                    self.topic,
                    None if value is None else (value + _PAD).encode(),
                    key.encode(),
                    partition=number % PARTITIONS,
                    on_delivery=self._on,
                )
                number += 1
            except BufferError:
                pass  # the broker is down
            producer.poll(0)
            time.sleep(self._pause_s)
        if producer.flush(CLIENT_S):
            self.failed.append(f"{self.topic}: records were not acknowledged in time")

    def _on(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{self.topic}: a record was refused: {error}")
            return
        value = message.value()
        known = None if value is None else value.decode().rstrip(".")
        self._acknowledged[message.partition()][message.offset()] = (message.key().decode(), known)

    def violations(self) -> list[str]:
        found = list(self.failed)
        for partition, read in records(self.bootstrap, self.topic).items():
            kept = [
                one._replace(value=None if one.value is None else one.value.rstrip("."))
                for one in read
            ]
            self._kept += len(kept)
            found += compaction_faults(partition, kept, self._acknowledged[partition])
        return found

    def counts(self) -> dict[str, int]:
        return {"keyed": sum(map(len, self._acknowledged.values())), "keyed_kept": self._kept}


class Expiring(Writer):
    """Writes to a topic with ``retention.bytes``, and has records of partition 0 deleted
    (DeleteRecords).
    """

    #: How often the start of each log is asked for, and records deleted, s.
    _EVERY_S: Final = 1.0
    #: The newest records of partition 0 that are left.
    _LEFT: Final = 500
    #: How long a request may take: the broker may be down.
    _ASK_S: Final = 2.0

    def __init__(self, bootstrap: str, topic: str, pause_s: float, retention_bytes: int) -> None:
        super().__init__(bootstrap, topic)
        self._pause_s = pause_s
        self._least = retention_bytes // _RECORD_BYTES
        self._acknowledged: dict[int, set[int]] = defaultdict(set)
        #: Log start offsets that were seen or acknowledged, by partition in their order.
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._kept = 0

    def work(self) -> None:
        producer, number, asked_at = idempotent_producer(self.bootstrap), 0, time.monotonic()
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "starts", "log_level": 0}
        consumer = Consumer(settings)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while not self.ended.is_set():
            try:
                producer.produce(
                    self.topic,
                    (f"{number}" + _PAD).encode(),
                    partition=number % PARTITIONS,
                    on_delivery=self._on,
                )
                number += 1
            except BufferError:
                pass  # the broker is down
            producer.poll(0)
            if time.monotonic() - asked_at > self._EVERY_S:
                self._ask(consumer, admin)
                asked_at = time.monotonic()
            time.sleep(self._pause_s)
        consumer.close()
        if producer.flush(CLIENT_S):
            self.failed.append(f"{self.topic}: records were not acknowledged in time")

    def _ask(self, consumer: Consumer, admin: AdminClient) -> None:
        try:
            upto = max(self._acknowledged[0], default=0) - self._LEFT
            if upto > 0:
                [asked] = admin.delete_records(
                    [TopicPartition(self.topic, 0, upto)], request_timeout=self._ASK_S
                ).values()
                self._starts[0].append(asked.result().low_watermark)
            for partition in range(PARTITIONS):
                found = consumer.get_watermark_offsets(
                    TopicPartition(self.topic, partition), timeout=self._ASK_S, cached=False
                )
                if found is not None:
                    self._starts[partition].append(found[0])
        except KafkaException:
            pass  # the broker is down

    def _on(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{self.topic}: a record was refused: {error}")
        else:
            self._acknowledged[message.partition()].add(message.offset())

    def violations(self) -> list[str]:
        found = list(self.failed)
        read = records(self.bootstrap, self.topic)
        for partition in range(PARTITIONS):
            kept = [one.offset for one in read[partition]]
            self._kept += len(kept)
            found += retention_faults(
                partition,
                kept,
                self._acknowledged[partition],
                self._starts[partition],
                self._LEFT if partition == 0 else self._least,
            )
        return found

    def counts(self) -> dict[str, int]:
        count = sum(map(len, self._acknowledged.values()))
        return {"expiring": count, "expiring_kept": self._kept}
