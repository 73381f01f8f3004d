"""Kills a broker of one node again and again under load: ``python -m tools.broker_kills``.

An idempotent producer and a transactional one write while ``kwire serve`` is killed with SIGKILL
and started again. Afterwards every acknowledged record has to be there once, at the offset that was
acknowledged, and in the order of its producer; a transaction whose end was acknowledged has to be
there whole or not at all. The result is a line of JSON, and the exit status is 1 for a violation.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import PATIENCE_S, lasting_ports

_PARTITIONS: Final = 4
#: Records of a transaction.
IN_TRANSACTION: Final = 8
#: Each third transaction is aborted by its producer.
_ABORTED: Final = 3
#: A transaction that a kill left open is aborted by then, s.
_TRANSACTION_S: Final = 10
_CLIENT_S: Final = 60.0


@click.command(epilog="Example: python -m tools.broker_kills --rounds 300")
@click.option("--rounds", default=60, show_default=True, help="Kills.")
@click.option("--seed", default=1, show_default=True, help="When it is killed.")
@click.option("--pause", default=0.0001, show_default=True, help="Between idempotent records, s.")
def main(rounds: int, seed: int, pause: float) -> None:
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kwire-kills-") as directory:
        server = _Server(Path(directory))
        try:
            server.start()
            server.create("idempotent", "transactional")
            writers = (_Idempotent(server.bootstrap, pause), _Transactional(server.bootstrap))
            for writer in writers:
                writer.start()
            for number in range(1, rounds + 1):
                time.sleep(choose.uniform(0.2, 1.5))
                server.kill()
                server.start()
                print(f"round {number} of {rounds}", file=sys.stderr)
            time.sleep(1)
            for writer in writers:
                writer.end()
            time.sleep(_TRANSACTION_S + 2)
            violations = [one for writer in writers for one in writer.violations()]
        finally:
            server.stop()
    counts = {name: value for writer in writers for name, value in writer.counts().items()}
    print(json.dumps({"rounds": rounds, **counts, "violations": violations}))
    sys.exit(bool(violations))


class _Server:
    """``kwire serve`` with its data in ``directory``, at the same ports after each start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._starts = 0
        self._ports = lasting_ports(2)
        self._running: Gateway | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        self._starts += 1
        scratch = self._directory / f"start-{self._starts}"
        scratch.mkdir()
        controller = f"CONTROLLER://127.0.0.1:{self._ports[1]}"
        listeners = f"PLAINTEXT://{self.bootstrap},{controller}"
        data = str(self._directory / "data")
        process = launch(scratch, "--data-dir", data, "--listeners", listeners)
        self._running = wait_until_ready(process, PATIENCE_S, time.monotonic())

    def create(self, *names: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        # Segments as short as Kafka allows, so that kills meet the beginning of new ones.
        config = {"segment.bytes": str(1 << 20)}
        topics = [NewTopic(name, _PARTITIONS, 1, config=config) for name in names]
        for created in admin.create_topics(topics).values():
            created.result(_CLIENT_S)

    def kill(self) -> None:
        assert self._running is not None
        self._running.process.kill()

    def stop(self) -> None:
        if self._running is not None:
            self._running.process.stop()


def _records(bootstrap: str, topic: str) -> dict[int, list[tuple[int, str]]]:
    """Return (offset, value) of every committed record of a topic, by partition."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "checker",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer, ended = Consumer(settings), set[int]()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(_PARTITIONS)])
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    while len(ended) < _PARTITIONS:
        message = consumer.poll(_CLIENT_S)
        assert message is not None, f"{topic} cannot be read to its end"
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        if message.error() is not None:
            ended.add(partition)
        else:
            assert offset is not None and value is not None
            found[partition].append((offset, value.decode()))
    consumer.close()
    return found


def record_faults(
    partition: int, records: Sequence[tuple[int, str]], acknowledged: Mapping[int, int]
) -> Iterator[str]:
    """Yield what is wrong with the (offset, number) of the records of one producer in a partition;
    ``acknowledged`` has the number at each offset that was acknowledged.
    """
    numbers = [int(value) for _, value in records]
    if numbers != sorted(set(numbers)):
        yield f"partition {partition}: a record is there twice, or out of order"
    at = {offset: int(value) for offset, value in records}
    lost = [offset for offset, number in acknowledged.items() if at.get(offset) != number]
    if lost:
        yield f"partition {partition}: lost at {lost[:5]}"


def transaction_faults(
    values: Sequence[str], committed: Set[int], aborted: Set[int]
) -> Iterator[str]:
    """Yield what is wrong with committed records, each of which is NUMBER-PART, after these ends of
    transactions were acknowledged.
    """
    if len(values) != len(set(values)):
        yield "a record of a transaction came twice"
    parts = Counter(int(value.partition("-")[0]) for value in set(values))
    for number, count in sorted(parts.items()):
        if number in aborted:
            yield f"transaction {number} was aborted, and read"
        elif count != IN_TRANSACTION:
            yield f"transaction {number} is there in part"
    for number in sorted(committed - parts.keys()):
        yield f"transaction {number} is lost"


class _Writer(threading.Thread):
    """Writes to a topic until :meth:`end`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.bootstrap = bootstrap
        self.topic = topic
        self.ended = threading.Event()

    def end(self) -> None:
        self.ended.set()
        self.join()

    def violations(self) -> list[str]:
        raise NotImplementedError

    def counts(self) -> dict[str, int]:
        raise NotImplementedError


class _Idempotent(_Writer):
    """Numbers its records, and remembers what was acknowledged at which offset."""

    def __init__(self, bootstrap: str, pause_s: float) -> None:
        super().__init__(bootstrap, "idempotent")
        self._pause_s = pause_s
        self._acknowledged: dict[int, dict[int, int]] = defaultdict(dict)
        self._failed: list[str] = []

    def run(self) -> None:
        settings = {"enable.idempotence": True, "linger.ms": 2, "log_level": 0}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        number = 0
        while not self.ended.is_set():
            try:
                producer.produce(
                    self.topic, b"%d" % number, partition=number % _PARTITIONS, on_delivery=self._on
                )
                number += 1
            except BufferError:
                pass  # the broker is down
            except KafkaException as error:
                self._failed.append(f"the producer gave up: {error}")
                return
            producer.poll(0)
            time.sleep(self._pause_s)
        if producer.flush(_CLIENT_S):
            self._failed.append("records were not acknowledged in time")

    def _on(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed.append(f"a record was refused: {error}")
        else:
            self._acknowledged[message.partition()][message.offset()] = int(message.value())

    def violations(self) -> list[str]:
        found = list(self._failed)
        records = _records(self.bootstrap, self.topic)
        for partition in range(_PARTITIONS):
            found += record_faults(
                partition, records.get(partition, []), self._acknowledged[partition]
            )
        return found

    def counts(self) -> dict[str, int]:
        return {"acknowledged": sum(map(len, self._acknowledged.values()))}


class _Transactional(_Writer):
    """Commits and aborts transactions, and remembers which ends were acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, "transactional")
        self._committed: set[int] = set()
        self._aborted: set[int] = set()

    def run(self) -> None:
        number, producer = 0, None
        while not self.ended.is_set():
            try:
                producer = producer or self._producer()
                number += 1
                self._transact(producer, number)
            except KafkaException as error:
                if error.args[0].txn_requires_abort() and producer is not None:
                    producer = self._after(producer, number)
                else:
                    producer = None  # a new one fences it, and ends what it left open

    def _producer(self) -> Producer:
        settings = {"transactional.id": "kills", "log_level": 0}
        settings["transaction.timeout.ms"] = _TRANSACTION_S * 1000
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(_CLIENT_S)
        return producer

    def _transact(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for part in range(IN_TRANSACTION):
            producer.produce(self.topic, b"%d-%d" % (number, part), partition=part % _PARTITIONS)
        if number % _ABORTED:
            producer.commit_transaction(_CLIENT_S)
            self._committed.add(number)
        else:
            producer.abort_transaction(_CLIENT_S)
            self._aborted.add(number)

    def _after(self, producer: Producer, number: int) -> Producer | None:
        try:
            producer.abort_transaction(_CLIENT_S)
        except KafkaException:
            return None
        self._aborted.add(number)
        return producer

    def violations(self) -> list[str]:
        found = _records(self.bootstrap, self.topic).values()
        values = [value for records in found for _, value in records]
        return list(transaction_faults(values, self._committed, self._aborted))

    def counts(self) -> dict[str, int]:
        return {"committed": len(self._committed), "aborted": len(self._aborted)}


if __name__ == "__main__":
    main()
