"""The logs of a broker go on with the other: kwire opens those that Kafka left, and Kafka those of
kwire, after a clean stop and after a kill: data, compacted data, groups and transactions.

The logs replace those of a cluster with the same topics, as a restored backup does. Each keeps its
``partition.metadata``, with the id of the topic.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S, until
from tools import java_tools
from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.kafka import Cluster, kafka

pytestmark = pytest.mark.interop

TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DATA, COMPACTED, GROUP, ID, OPEN_ID = "data", "compacted", "group", "id", "open-id"
TOPICS = (DATA, COMPACTED, "__consumer_offsets", "__transaction_state")
ONE_OF_EACH = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
KEYS = 10


class Found(NamedTuple):
    """Facts that clients find in the logs."""

    data: list[bytes | None]
    newest: dict[bytes | None, bytes | None]
    committed: int
    producer: tuple[str, str]


class Kwire:
    """A kwire broker, which does not run yet."""

    def __init__(self, directory: Path) -> None:
        self.log_dir = directory / "data"
        self._directory = directory
        self._running: Gateway | None = None

    def start(self) -> str:
        if self._running is not None:
            return self._running.bootstrap
        scratch = self._directory / f"start-{time.monotonic_ns()}"
        scratch.mkdir(parents=True)
        options = [word for key, value in ONE_OF_EACH.items() for word in _option(key, value)]
        process = launch(scratch, "--data-dir", str(self.log_dir), *options)
        self._running = wait_until_ready(process, PATIENCE_S, time.monotonic())
        return self._running.bootstrap

    def end(self, *, kill: bool) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        if kill:
            running.process.kill()
        else:
            assert running.process.stop() == 0


class Kafka:
    """A Kafka broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        (self._node,) = cluster.nodes
        self.log_dir = self._node.log_dir

    def start(self) -> str:
        if self._node.process is None:
            self._cluster.start_node(self._node)
            self._cluster.wait_for_node(self._node)
        return self._cluster.bootstrap

    def end(self, *, kill: bool) -> None:
        if self._node.process is None:
            return
        if kill:
            self._cluster.kill_node(self._node)
        else:
            self._cluster.stop_node(self._node)


def _option(key: str, value: str) -> tuple[str, str]:
    return f"--{key.replace('.', '-')}", value


def create(bootstrap: str, node_id: int) -> None:
    """Create the topics of the test, and have the broker compact soon."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    soon = ConfigEntry("log.cleaner.backoff.ms", "100", incremental_operation=AlterConfigOpType.SET)
    broker = ConfigResource(ResourceType.BROKER, str(node_id), incremental_configs=[soon])
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
    }
    topics = [NewTopic(DATA, 1, 1), NewTopic(COMPACTED, 1, 1, config=config)]
    changes = admin.incremental_alter_configs([broker])
    for one in (*admin.create_topics(topics).values(), *changes.values()):
        one.result(PATIENCE_S)


def write(bootstrap: str, name: str) -> None:
    """Write plain records, transactions of which the last stays open, and commit an offset."""
    plain = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(20):
        plain.produce(DATA, f"{name}-{number}")
    assert plain.flush(PATIENCE_S) == 0
    producers = {one: transactional(bootstrap, one) for one in (ID, OPEN_ID)}
    for commits in (True, False, True):
        producers[ID].begin_transaction()
        producers[ID].produce(DATA, f"{name}-{'committed' if commits else 'aborted'}")
        if commits:
            producers[ID].commit_transaction(PATIENCE_S)
        else:
            producers[ID].flush(PATIENCE_S)
            producers[ID].abort_transaction(PATIENCE_S)
    producers[OPEN_ID].begin_transaction()
    producers[OPEN_ID].produce(DATA, f"{name}-open")
    producers[OPEN_ID].flush(PATIENCE_S)
    at = TopicPartition(DATA, 0, 7 + len(name))
    with closing(reader(bootstrap)) as consumer:
        consumer.commit(offsets=[at], asynchronous=False)


def compact(bootstrap: str, name: str) -> None:
    """Write new values of a few keys until old ones are gone."""
    plain = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    first = [f"{name}-first-{key}".encode() for key in range(KEYS)]

    def compacted() -> bool:
        for key in range(KEYS):
            plain.produce(COMPACTED, f"{name}-last-{key}", key=f"key-{key}")
        assert plain.flush(PATIENCE_S) == 0
        left = {value for _, value in records(bootstrap, COMPACTED)}
        return not left.intersection(first)

    for key, value in enumerate(first):
        plain.produce(COMPACTED, value, key=f"key-{key}")
    until(compacted, "the first values are compacted away")


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(PATIENCE_S)
    return producer


def reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Key and value of each committed record."""
    found: list[Any] = []
    with closing(reader(bootstrap)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            found.append((message.key(), message.value()))
    assert message is not None, "the end of the topic"
    return found


def found(bootstrap: str) -> Found:
    """Return the facts that clients find. A coordinator may still load its partition."""
    with closing(reader(bootstrap)) as consumer:
        wanted = [TopicPartition(DATA, 0)]
        [at] = until(lambda: consumer.committed(wanted, PATIENCE_S), "the committed offset")
    asked = ["--bootstrap-server", bootstrap, "describe", "--transactional-id", ID]
    described = java_tools.retried(lambda: java_tools.run_tool(TRANSACTIONS, asked))
    [row] = [line.split() for line in described.splitlines() if re.match(r"^\d", line)]
    newest = dict(records(bootstrap, COMPACTED))
    data = [value for _, value in records(bootstrap, DATA)]
    # CoordinatorId, TransactionalId, ProducerId, ProducerEpoch, TransactionState
    return Found(data, newest, at.offset, (row[2], row[4]))


def move(source: Path, target: Path) -> None:
    """Put the logs of one broker, and what it noted of them, in the place of those of another."""
    for topic in TOPICS:
        kept = (target / f"{topic}-0" / "partition.metadata").read_bytes()
        shutil.rmtree(target / f"{topic}-0")
        shutil.copytree(source / f"{topic}-0", target / f"{topic}-0")
        (target / f"{topic}-0" / "partition.metadata").write_bytes(kept)
    for path in [*target.glob("*-checkpoint"), target / ".kafka_cleanshutdown"]:
        path.unlink(missing_ok=True)
    for path in source.glob("*-checkpoint"):
        shutil.copy(path, target)


def goes_on(bootstrap: str, before: Found) -> None:
    """Transactions go on where they were: the open one is aborted, its records are not read."""
    for one in (OPEN_ID, ID):
        producer = transactional(bootstrap, one)
        producer.begin_transaction()
        producer.produce(DATA, f"{one}-goes-on")
        producer.commit_transaction(PATIENCE_S)
    wanted = [*before.data, b"open-id-goes-on", b"id-goes-on"]
    until(lambda: [value for _, value in records(bootstrap, DATA)] == wanted, "the new records")
    after = found(bootstrap)
    assert (after.committed, after.producer[0]) == (before.committed, before.producer[0])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Kwire, Kafka]]:
    """One of each."""
    need_clients()
    with kafka(properties=ONE_OF_EACH) as cluster:
        own, other = Kwire(tmp_path), Kafka(cluster)
        try:
            yield own, other
        finally:
            for one in (own, other):
                one.end(kill=True)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("to_kafka", [True, False], ids=["to-kafka", "to-kwire"])
def test_logs_of_one_broker_go_on_with_the_other(
    brokers: tuple[Kwire, Kafka], to_kafka: bool, kill: bool
) -> None:
    source, target = brokers if to_kafka else reversed(brokers)
    create(target.start(), 1)
    write(target.start(), "target")
    # A start begins leader epochs: those of the target have to be the later ones.
    target.end(kill=False)
    target.start()
    target.end(kill=False)
    bootstrap = source.start()
    create(bootstrap, 1)
    write(bootstrap, "source")
    compact(bootstrap, "source")
    before = found(bootstrap)
    source.end(kill=kill)
    move(source.log_dir, target.log_dir)
    bootstrap = target.start()
    assert found(bootstrap) == before
    goes_on(bootstrap, before)
