"""A copier: consumes committed records in a group, produces them to another topic, and commits the
group's offsets in the same transaction, so that each record is copied once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tools.broker_kills.judge import copy_faults
from tools.broker_kills.reading import CLIENT_S, PARTITIONS, records
from tools.broker_kills.writers import Writer, transactional_producer

#: Records that are copied at once, at most, and how long the copier waits for them, s.
_AT_ONCE: Final = 100
_POLL_S: Final = 0.2
#: Each fifth transaction is aborted, and its records are copied again.
_ABORTED: Final = 5
#: How long the copier may take to copy what is left when the source gets no more records, s.
_REST_S: Final = 4 * CLIENT_S
#: An attempt that has done nothing for so long is given up, s. The next one fences it.
_STUCK_S: Final = 0.75 * CLIENT_S


class Copier(Writer):
    """Copies ``source`` to its topic, each record to the partition that it came from."""

    def __init__(self, bootstrap: str, topic: str, source: str) -> None:
        super().__init__(bootstrap, topic)
        self._source = source
        self._transactions = 0
        self._copied = 0
        self._stuck = 0
        self._moved_at = 0.0
        #: Next offset that is copied, by partition, as far as a commit was acknowledged.
        self._next: dict[int, int] = {}

    def work(self) -> None:
        while not self.ended.is_set():
            self._moved_at = time.monotonic()
            attempt = threading.Thread(target=self._attempt, daemon=True, name=self.topic)
            attempt.start()
            while attempt.is_alive():
                attempt.join(_POLL_S)
                if time.monotonic() - self._moved_at > _STUCK_S:
                    # A call of librdkafka does not return (librdkafka 5456). The next producer
                    # fences this one, and its consumer leaves the group (max.poll.interval.ms).
                    self._stuck += 1
                    break

    def _attempt(self) -> None:
        try:
            self._copy()
        except KafkaException:
            pass  # the next attempt begins where the group committed
        except BaseException as error:
            self.failed.append(f"{self.topic}: an attempt ended: {error!r}")
            raise

    def _copy(self) -> None:
        producer = transactional_producer(self.bootstrap, self.topic)
        consumer = self._consumer()
        try:
            while not self.ended.is_set():
                self._moved_at = time.monotonic()
                messages = [one for one in consumer.consume(_AT_ONCE, _POLL_S) if not one.error()]
                if messages:
                    self._transact(producer, consumer, messages)
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.topic,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "max.poll.interval.ms": 10_000,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.subscribe([self._source])
        return consumer

    def _transact(
        self, producer: Producer, consumer: Consumer, messages: Sequence[Message]
    ) -> None:
        self._transactions += 1
        first: dict[int, int] = {}
        behind: dict[int, int] = {}
        producer.begin_transaction()
        for one in messages:
            partition, offset = one.partition(), one.offset()
            assert partition is not None and offset is not None
            producer.produce(self.topic, one.value(), partition=partition)
            first.setdefault(partition, offset)
            behind[partition] = offset + 1
        producer.send_offsets_to_transaction(
            [TopicPartition(self._source, *where) for where in behind.items()],
            consumer.consumer_group_metadata(),
            CLIENT_S,
        )
        if self._transactions % _ABORTED:
            producer.commit_transaction(CLIENT_S)
            self._copied += len(messages)
            self._next.update(behind)
        else:
            producer.abort_transaction(CLIENT_S)
            for where in first.items():
                consumer.seek(TopicPartition(self._source, *where))

    def end(self) -> None:
        """Wait until everything is copied: the source gets no more records."""
        last = {
            partition: found[-1].offset
            for partition, found in records(self.bootstrap, self._source).items()
        }
        deadline = time.monotonic() + _REST_S
        while any(self._next.get(partition, 0) <= offset for partition, offset in last.items()):
            if time.monotonic() > deadline or not self.is_alive():
                self.failed.append(
                    f"{self.topic}: copied up to {self._next}, of {last}, and is in {self.place()}"
                )
                break
            time.sleep(_POLL_S)
        super().end()

    def violations(self) -> list[str]:
        found = list(self.failed)
        source, copies = (records(self.bootstrap, name) for name in (self._source, self.topic))
        asked = [TopicPartition(self._source, number) for number in range(PARTITIONS)]
        consumer = self._consumer()
        committed = {one.partition: one.offset for one in consumer.committed(asked, CLIENT_S)}
        consumer.close()
        for partition in range(PARTITIONS):
            found += copy_faults(
                partition,
                [one.value or "" for one in source[partition]],
                [one.value or "" for one in copies[partition]],
                sum(one.offset < committed[partition] for one in source[partition]),
            )
        return found

    def counts(self) -> dict[str, int]:
        return {"copied": self._copied, "copier_stuck": self._stuck}
