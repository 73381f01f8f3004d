"""Reads acknowledged records while brokers fail, each time with a consumer that knows nothing: a
record that was acknowledged before has to be there.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Set
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tools.broker_kills.reading import PARTITIONS
from tools.broker_kills.writers import IdempotentWriter
from tools.partition_checker.judge import FreshRead, stale_faults

#: Between two reads, and for each request of one, s.
_PAUSE_S: Final = 0.5
_ASK_S: Final = 3.0


class FreshReads(threading.Thread):
    """Reads what ``writer`` has heard of until :meth:`end`. ``deposed()`` returns the brokers that
    may take themselves for leaders and are none. ``count`` reads were answered, ``failed`` says
    what was wrong with them.
    """

    def __init__(
        self, bootstrap: str, writer: IdempotentWriter, deposed: Callable[[], Set[int]]
    ) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.failed: list[str] = []
        self.bootstrap = bootstrap
        self._writer = writer
        self._deposed = deposed
        self._ended = threading.Event()

    def end(self) -> None:
        """Stop reading."""
        self._ended.set()
        self.join()

    def run(self) -> None:
        for partition in itertools.cycle(range(PARTITIONS)):
            if self._ended.wait(_PAUSE_S):
                return
            if partition not in self._writer.newest:
                continue
            deposed = self._deposed()
            try:
                read = self._read(partition, *self._writer.newest[partition])
            except KafkaException:
                continue  # there is no leader, or it did not answer
            self.count += 1
            self.failed += stale_faults(read, deposed | self._deposed())

    def _read(self, partition: int, offset: int, number: int) -> FreshRead:
        """Raises KafkaException when there is no answer."""
        topic = self._writer.topic
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "fresh",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        try:
            known = consumer.list_topics(topic, _ASK_S).topics[topic].partitions
            leader = known[partition].leader if partition in known else -1
            where = TopicPartition(topic, partition, offset)
            answer = consumer.get_watermark_offsets(where, _ASK_S, cached=False)
            if answer is None:
                raise KafkaException("no offsets in time")
            consumer.assign([where])
            found = _value_at(consumer, offset)
        finally:
            consumer.close()
        name = f"{topic}-{partition}"
        return FreshRead(name, offset, str(number), leader, answer[1], found)


def _value_at(consumer: Consumer, offset: int) -> str | None:
    """Return the value of the first record that is read, if it has this offset; a leader that was
    just elected may not give it yet.
    """
    deadline = time.monotonic() + _ASK_S
    while (left := deadline - time.monotonic()) > 0:
        message = consumer.poll(left)
        if message is not None and message.error() is None and message.offset() == offset:
            value = message.value()
            return None if value is None else value.decode()
    return None
