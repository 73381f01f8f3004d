"""A broker of kwire leads a partition that a broker of Kafka follows, under Kafka's controller: the
ISR shrinks without the follower and grows when it is back, and acks=all loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.brokers import Partition, Producer, consume, partitions
from tests.interop.clients import need_java
from tests.waiting import until
from tools.kafka import Cluster, kafka
from tools.own_brokers import FIRST_ID as OWN
from tools.own_brokers import OwnBrokers, own_brokers
from tools.real_brokers import FIRST_ID as JAVA
from tools.real_brokers import SESSIONS, logged_errors

TOPIC = "led"
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


def wait_for_isr(brokers: OwnBrokers, topic: str, isr: frozenset[int]) -> Partition:
    """Return the partition when the brokers in ``isr`` are in sync, and no other."""
    found = until(
        lambda: partitions(brokers, topic),
        f"the ISR {sorted(isr)}",
        lambda told: [one.in_sync for one in told] == [isr],
    )
    return found[0]


def test_isr_shrinks_without_a_java_follower_and_grows_with_it(
    mixed: tuple[Cluster, OwnBrokers], tmp_path: Path
) -> None:
    cluster, brokers = mixed
    java = cluster.node(JAVA)
    create(cluster, TOPIC)
    assert wait_for_isr(brokers, TOPIC, BOTH).leader == OWN
    producer = Producer.start(brokers, TOPIC, 4_000, 200, tmp_path)
    for lose, bring_back in (
        (cluster.kill_node, cluster.start_node),
        (cluster.pause_node, cluster.resume_node),
    ):
        producer.produce_until(producer.acknowledged() + 100)
        lose(java)
        wait_for_isr(brokers, TOPIC, ALONE)
        producer.produce_until(producer.acknowledged() + 100)
        bring_back(java)
        assert wait_for_isr(brokers, TOPIC, BOTH).leader == OWN
    producer.produce_until(producer.acknowledged() + 100)
    sent, failed = producer.result()
    assert not failed and len(sent) == 4_000
    assert consume(brokers, TOPIC, len(sent)) == sent
    assert logged_errors(cluster.nodes) == []
