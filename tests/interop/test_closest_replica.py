"""Consumers of librdkafka with ``client.rack`` read from the follower in their rack (KIP-392), and
from the leader while the follower is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.interop.clients import need_clients
from tests.waiting import PATIENCE_S, until
from tools.kafka_files import Node
from tools.own_brokers import OwnBrokers, own_brokers
from tools.own_quorum import own_quorum

_TOPIC = "orders"
_RECORDS = 100
_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _rack(node: Node) -> Mapping[str, str]:
    return {"broker.rack": f"rack-{node.node_id}"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[OwnBrokers]:
    """Two brokers in two racks, under a controller; a follower that is gone leaves the ISR soon."""
    need_clients()
    properties = {"replica.selector.class": _RACK_AWARE, "replica.lag.time.max.ms": "3000"}
    controllers = {"process.roles": "controller"}
    with (
        own_quorum(1, formatted=True, properties=controllers) as quorum,
        own_brokers(quorum, 2, properties=properties, node_properties=_rack) as running,
    ):
        yield running


class _Reader:
    """Reads the partition; ``source`` is the broker that it fetches from, as librdkafka says."""

    def __init__(self, bootstrap: str, rack: str) -> None:
        self.source = -1
        self.values: list[bytes] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": rack,
                "client.rack": rack,
                "isolation.level": "read_committed",
                "statistics.interval.ms": 100,
                "stats_cb": self._note,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._consumer.assign([TopicPartition(_TOPIC, 0, 0)])

    def _note(self, text: str) -> None:
        found = json.loads(text)["topics"].get(_TOPIC, {}).get("partitions", {}).get("0")
        if found is not None:
            self.source = found["broker"]

    def read_until(self, count: int, source: int) -> None:
        """Wait until so many records are read, and it fetches from ``source``."""
        until(lambda: self._has(count, source), f"{count} records come, the last from {source}")

    def _has(self, count: int, source: int) -> bool:
        for message in self._consumer.consume(_RECORDS, 0.1):
            if message.error() is None:
                self.values.append(message.value() or b"")
        return len(self.values) >= count and self.source == source

    def close(self) -> None:
        self._consumer.close()


def _produce(bootstrap: str, begin: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    values = [b"%d" % number for number in range(begin, begin + _RECORDS)]
    for value in values:
        producer.produce(_TOPIC, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return values


def test_consumers_read_from_the_replica_in_their_rack_while_it_is_there(
    brokers: OwnBrokers,
) -> None:
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    admin.create_topics([NewTopic(_TOPIC, 1, 2)])[_TOPIC].result(PATIENCE_S)
    until(lambda: _TOPIC in admin.list_topics(timeout=PATIENCE_S).topics, "the topic is known")
    leader = admin.list_topics(_TOPIC, timeout=PATIENCE_S).topics[_TOPIC].partitions[0].leader
    (follower,) = [node for node in brokers.nodes if node.node_id != leader]
    values = _produce(brokers.bootstrap, 0)
    readers = {
        follower.node_id: _Reader(brokers.bootstrap, f"rack-{follower.node_id}"),
        leader: _Reader(brokers.bootstrap, f"rack-{leader}"),
    }
    try:
        for source, reader in readers.items():
            reader.read_until(_RECORDS, source)
        values += _produce(brokers.bootstrap, _RECORDS)
        for source, reader in readers.items():
            reader.read_until(2 * _RECORDS, source)
        brokers.kill_node(follower)
        values += _produce(brokers.bootstrap, 2 * _RECORDS)
        for reader in readers.values():
            reader.read_until(3 * _RECORDS, leader)
            assert reader.values == values
    finally:
        for reader in readers.values():
            reader.close()
