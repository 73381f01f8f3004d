"""Producers that go on while their broker is killed, and remember what was acknowledged.

They know brokers by a bootstrap string and topics by their names: who creates the topics decides on
partitions and replicas.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from tools.broker_kills.judge import (
    IN_TRANSACTION,
    record_faults,
    transaction_faults,
)
from tools.broker_kills.reading import CLIENT_S, PARTITIONS, numbered, records

#: Each third transaction is aborted by its producer.
_ABORTED: Final = 3
#: A transaction that a kill left open is aborted by then, s.
TRANSACTION_S: Final = 10
#: The broker is up for a second at a time: clients find it soon, and do not complain. librdkafka
#: forgets its brokers when none can be reached (KIP-899), and a transaction that sends offsets then
#: waits for one of those for ever.
QUICK: Final = {
    "reconnect.backoff.max.ms": 200,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
#: How long a thread may take to end, s: its last calls may each wait for an answer.
_END_S: Final = 4 * CLIENT_S


class Writer(threading.Thread):
    """Works on a topic until :meth:`end`. A thread that ends before is a violation."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True, name=topic)
        self.bootstrap = bootstrap
        self.topic = topic
        self.ended = threading.Event()
        self.failed: list[str] = []

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failed.append(f"{self.topic}: the thread ended: {error!r}")
            raise
        if not self.ended.is_set():
            self.failed.append(f"{self.topic}: the thread ended before the run")

    def end(self) -> None:
        """Let the thread end, and note if it does not."""
        self.ended.set()
        self.join(_END_S)
        if self.is_alive():
            self.failed.append(f"{self.topic}: the thread has not ended: it is in {self.place()}")

    def place(self) -> str:
        """Return the line at which the thread is."""
        stack = traceback.extract_stack(sys._current_frames().get(self.ident or 0))
        own = [frame for frame in stack if Path(frame.filename).parent == Path(__file__).parent]
        return (
            f"{own[-1].filename}:{own[-1].lineno} ({own[-1].line})" if own else "no code of its own"
        )

    @abstractmethod
    def work(self) -> None:
        """Write until ``ended`` is set."""

    @abstractmethod
    def violations(self) -> list[str]:
        """Return what is wrong with what is left, once the thread has ended."""

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """Return what was acknowledged, by name."""


class IdempotentWriter(Writer):
    """Numbers its records, sends them idempotently, and remembers what was acknowledged."""

    def __init__(self, bootstrap: str, topic: str, pause_s: float) -> None:
        """``pause_s`` is between two records."""
        super().__init__(bootstrap, topic)
        self._pause_s = pause_s
        #: The number of the record at each offset that was acknowledged, by partition.
        self.acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        #: The records that were acknowledged without an offset, by partition.
        self.elsewhere: dict[int, set[int]] = defaultdict(set)
        #: The highest offset that was acknowledged, and the number of its record, by partition.
        self.newest: dict[int, tuple[int, int]] = {}

    @abstractmethod
    def record(self, number: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value of a record."""

    def between(self) -> None:
        """Do what else there is to do, between two records."""

    def work(self) -> None:
        producer, number = idempotent_producer(self.bootstrap), 0
        while not self.ended.is_set():
            key, value = self.record(number)
            on_delivery = partial(self._on, number)
            try:
                producer.produce(
                    self.topic, value, key, number % PARTITIONS, on_delivery=on_delivery
                )
                number += 1
            except BufferError:
                pass  # the broker is down
            producer.poll(0)
            self.between()
            time.sleep(self._pause_s)
        if producer.flush(CLIENT_S):
            self.failed.append(f"{self.topic}: records were not acknowledged in time")

    def _on(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(f"{self.topic}: a record was refused: {error}")
        elif message.offset() is None:
            self.elsewhere[message.partition()].add(number)
        else:
            partition, offset = message.partition(), message.offset()
            self.acknowledged[partition][offset] = number
            self.newest[partition] = max((offset, number), self.newest.get(partition, (-1, -1)))

    def count(self) -> int:
        """Return how many records were acknowledged."""
        return sum(map(len, [*self.acknowledged.values(), *self.elsewhere.values()]))


class Idempotent(IdempotentWriter):
    """Has every record that was acknowledged looked for, at its offset and in its order."""

    def __init__(
        self, bootstrap: str, topic: str, pause_s: float, directory: Callable[[int], Path]
    ) -> None:
        """``directory`` returns the one that holds the log of a partition, at the end."""
        super().__init__(bootstrap, topic, pause_s)
        self._directory = directory

    def record(self, number: int) -> tuple[bytes | None, bytes | None]:
        return None, b"%d" % number

    def violations(self) -> list[str]:
        found = list(self.failed)
        kept = records(self.bootstrap, self.topic)
        for partition in range(PARTITIONS):
            sent = numbered(kept[partition], self._directory(partition))
            found += record_faults(
                partition, sent, self.acknowledged[partition], self.elsewhere[partition]
            )
        return found

    def counts(self) -> dict[str, int]:
        return {"acknowledged": self.count()}


class Transactional(Writer):
    """Commits and aborts transactions, and remembers which ends were acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self._committed: set[int] = set()
        self._aborted: set[int] = set()

    def work(self) -> None:
        number, producer = 0, None
        while not self.ended.is_set():
            try:
                producer = producer or transactional_producer(self.bootstrap, self.topic)
                number += 1
                self._transact(producer, number)
            except KafkaException as error:
                if error.args[0].txn_requires_abort() and producer is not None:
                    producer = self._after(producer, number)
                else:
                    producer = None  # a new one fences it, and ends what it left open

    def _transact(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for part in range(IN_TRANSACTION):
            producer.produce(self.topic, b"%d-%d" % (number, part), partition=part % PARTITIONS)
        if number % _ABORTED:
            producer.commit_transaction(CLIENT_S)
            self._committed.add(number)
        else:
            producer.abort_transaction(CLIENT_S)
            self._aborted.add(number)

    def _after(self, producer: Producer, number: int) -> Producer | None:
        try:
            producer.abort_transaction(CLIENT_S)
        except KafkaException:
            return None
        self._aborted.add(number)
        return producer

    def violations(self) -> list[str]:
        kept = records(self.bootstrap, self.topic).values()
        values = [one.value or "" for found in kept for one in found]
        return self.failed + list(transaction_faults(values, self._committed, self._aborted))

    def counts(self) -> dict[str, int]:
        return {"committed": len(self._committed), "aborted": len(self._aborted)}


def idempotent_producer(bootstrap: str) -> Producer:
    """A producer whose records are acknowledged by all replicas, once, however long it takes."""
    settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 2}
    # Few, so that they are acknowledged soon after the end of the run.
    settings["queue.buffering.max.messages"] = 5000
    return Producer({"bootstrap.servers": bootstrap, **QUICK, **settings})


def transactional_producer(bootstrap: str, transactional_id: str) -> Producer:
    """A producer that has fenced the one before it. Raises KafkaException."""
    timeout = {"transaction.timeout.ms": TRANSACTION_S * 1000}
    producer = Producer({
        "bootstrap.servers": bootstrap, "transactional.id": transactional_id, **timeout, **QUICK,
    })  # fmt: skip
    producer.init_transactions(CLIENT_S)
    return producer
