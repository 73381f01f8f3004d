"""A broker of kwire leads a partition that a broker of Kafka follows, under Kafka's controller: the
ISR shrinks without the follower and grows when it is back, and acks=all loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.interop.brokers import Partition, partitions
from tests.interop.clients import need_java
from tests.waiting import PATIENCE_S, until
from tools.kafka import Cluster, kafka
from tools.own_brokers import FIRST_ID as OWN
from tools.own_brokers import OwnBrokers, own_brokers
from tools.real_brokers import FIRST_ID as JAVA
from tools.real_brokers import SESSIONS, logged_errors

TOPIC = "led"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
#: A follower that is gone leaves the ISR by its lag or by its session, whichever ends first.
LAG = {"replica.lag.time.max.ms": "3000"}
BOTH, ALONE = frozenset({OWN, JAVA}), frozenset({OWN})


@pytest.fixture(scope="module")
def mixed() -> Iterator[tuple[Cluster, OwnBrokers]]:
    """A controller and a broker of Kafka, and a broker of kwire, in one cluster."""
    need_java()
    with (
        kafka(brokers=1, controllers=1, properties={**SESSIONS, **LAG}) as cluster,
        own_brokers(cluster, 1, properties=LAG) as brokers,
    ):
        yield cluster, brokers


def create(cluster: Cluster, topic: str) -> None:
    """A topic with one partition on both brokers; kwire's leads."""
    cluster.tool(TOPICS, ["--create", "--topic", topic, "--replica-assignment", f"{OWN}:{JAVA}"])


def wait_for_isr(brokers: Cluster, topic: str, isr: frozenset[int]) -> Partition:
    """Return the partition when the brokers in ``isr`` are in sync, and no other."""
    found = until(
        lambda: partitions(brokers, topic),
        f"the ISR {sorted(isr)}",
        lambda told: [one.in_sync for one in told] == [isr],
    )
    return found[0]


class Writer:
    """An idempotent producer of librdkafka with acks=all; ``acknowledged`` has the value at each
    offset.
    """

    def __init__(self, cluster: Cluster, brokers: OwnBrokers) -> None:
        servers = f"{brokers.bootstrap},{cluster.bootstrap}"
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "acks": "all",
                "delivery.timeout.ms": 1000 * int(PATIENCE_S),
                "log_level": 0,
            }
        )
        self.acknowledged: dict[int, bytes] = {}
        self._sent = 0

    def send(self, count: int) -> None:
        """Begin to send so many records."""
        for _ in range(count):
            value = b"%d" % self._sent
            self._sent += 1
            self._producer.produce(TOPIC, value, partition=0, on_delivery=self._delivered)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged[message.offset()] = message.value()

    def flush(self) -> None:
        """Return when all were acknowledged."""
        assert self._producer.flush(PATIENCE_S) == 0
        assert len(self.acknowledged) == self._sent


def stored(servers: str, count: int) -> dict[Any, Any]:
    """The first records of the partition."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, "group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
    found: dict[Any, Any] = {}

    def read() -> int:
        for message in consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            found[message.offset()] = message.value()
        return len(found)

    until(read, "the records", lambda size: size >= count)
    consumer.close()
    return found


def test_followers_of_kafka_leave_the_isr_and_come_back(
    mixed: tuple[Cluster, OwnBrokers],
) -> None:
    cluster, brokers = mixed
    java, own = cluster.node(JAVA), brokers.node(OWN)
    create(cluster, TOPIC)
    assert wait_for_isr(brokers, TOPIC, BOTH).leader == OWN
    writer = Writer(cluster, brokers)
    writer.send(100)
    writer.flush()
    for lose, bring_back in (
        (cluster.kill_node, cluster.start_node),
        (cluster.pause_node, cluster.resume_node),
    ):
        lose(java)
        writer.send(100)  # they are committed when the ISR has shrunk
        wait_for_isr(brokers, TOPIC, ALONE)
        writer.flush()
        bring_back(java)
        assert wait_for_isr(brokers, TOPIC, BOTH).leader == OWN
        writer.send(100)
        writer.flush()
    for end in (brokers.stop_node, brokers.kill_node):
        end(own)
        writer.send(100)
        wait_for_isr(cluster, TOPIC, frozenset({JAVA}))
        writer.flush()
        brokers.start_node(own)
        brokers.wait_for_node(own)
        assert wait_for_isr(cluster, TOPIC, BOTH).leader == JAVA
        cluster.tool(
            ELECTION, ["--election-type", "preferred", "--topic", TOPIC, "--partition", "0"]
        )
        assert (
            until(
                lambda: partitions(cluster, TOPIC)[0], "the move", lambda told: told.leader == OWN
            ).in_sync
            == BOTH
        )
        writer.send(100)
        writer.flush()
    assert stored(brokers.bootstrap, len(writer.acknowledged)) == writer.acknowledged
    assert logged_errors(cluster.nodes) == []
