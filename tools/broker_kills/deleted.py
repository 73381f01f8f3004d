"""Writers to topics whose old records go: one that is compacted, one with a short retention."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tools.broker_kills.judge import compaction_faults, retention_faults
from tools.broker_kills.reading import PARTITIONS, records
from tools.broker_kills.writers import IdempotentWriter

#: Values are as long as this, so that segments are filled soon.
_PAD: Final = "." * 1000
#: Bytes of a record in the log, at most: its batch may have no other.
_RECORD_BYTES: Final = 1100


class Keyed(IdempotentWriter):
    """Writes new values, and tombstones, of few keys to a compacted topic."""

    #: Keys of a partition.
    _KEYS: Final = 40
    #: Each so manieth record is a tombstone.
    _DELETED: Final = 7

    def __init__(self, bootstrap: str, topic: str, pause_s: float) -> None:
        super().__init__(bootstrap, topic, pause_s)
        self._kept = 0

    def record(self, number: int) -> tuple[bytes | None, bytes | None]:
        key, value = self._written(number)
        return key.encode(), None if value is None else (value + _PAD).encode()

    def _written(self, number: int) -> tuple[str, str | None]:
        """Return key and value of a record, without the padding."""
        key = f"key-{number // PARTITIONS % self._KEYS}"
        return key, None if number % self._DELETED == 0 else f"{number}"

    def violations(self) -> list[str]:
        found = list(self.failed)
        for partition, read in records(self.bootstrap, self.topic).items():
            kept = [
                one._replace(value=None if one.value is None else one.value.rstrip("."))
                for one in read
            ]
            self._kept += len(kept)
            acknowledged = dict(self.acknowledged[partition])
            for one in kept:
                if one.value is not None and int(one.value) in self.elsewhere[partition]:
                    acknowledged[one.offset] = int(one.value)
            written = {offset: self._written(number) for offset, number in acknowledged.items()}
            found += compaction_faults(partition, kept, written)
        return found

    def counts(self) -> dict[str, int]:
        return {"keyed": self.count(), "keyed_kept": self._kept}


class Expiring(IdempotentWriter):
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
        super().__init__(bootstrap, topic, pause_s)
        self._least = retention_bytes // _RECORD_BYTES
        #: Log start offsets that were seen or acknowledged, by partition in their order.
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._kept = 0
        self._asked_at = time.monotonic()
        where = {"bootstrap.servers": bootstrap}
        self._consumer = Consumer({**where, "group.id": "starts", "log_level": 0})
        self._admin = AdminClient({**where, "log_level": 0})

    def record(self, number: int) -> tuple[bytes | None, bytes | None]:
        return None, (f"{number}" + _PAD).encode()

    def between(self) -> None:
        if time.monotonic() - self._asked_at > self._EVERY_S:
            with contextlib.suppress(KafkaException):  # the broker is down
                self._ask()
            self._asked_at = time.monotonic()

    def _ask(self) -> None:
        upto = max(self.acknowledged[0], default=0) - self._LEFT
        if upto > 0:
            [asked] = self._admin.delete_records(
                [TopicPartition(self.topic, 0, upto)], request_timeout=self._ASK_S
            ).values()
            self._starts[0].append(asked.result().low_watermark)
        for partition in range(PARTITIONS):
            found = self._consumer.get_watermark_offsets(
                TopicPartition(self.topic, partition), timeout=self._ASK_S, cached=False
            )
            if found is not None:
                self._starts[partition].append(found[0])

    def violations(self) -> list[str]:
        found = list(self.failed)
        read = records(self.bootstrap, self.topic)
        for partition in range(PARTITIONS):
            kept = [one.offset for one in read[partition]]
            self._kept += len(kept)
            found += retention_faults(
                partition,
                kept,
                set(self.acknowledged[partition]),
                self._starts[partition],
                self._LEFT if partition == 0 else self._least,
            )
        return found

    def counts(self) -> dict[str, int]:
        return {"expiring": self.count(), "expiring_kept": self._kept}
