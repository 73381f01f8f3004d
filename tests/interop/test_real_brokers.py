"""Kafka brokers under three kwire controllers keep serving through failures, and no
acknowledged record is lost.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.interop.brokers import Producer, consume, fenced, partitions
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.waiting import until
from tools import java
from tools.kafka import Cluster
from tools.own_quorum import OwnCluster, own_quorum
from tools.real_brokers import SESSIONS, real_brokers

RECORDS, PER_SECOND = 60_000, 2500
TOPIC, PARTITIONS = "orders", 6
CONTROLLERS = {"broker.session.timeout.ms": SESSIONS["broker.session.timeout.ms"]}
#: A follower that is behind for so long is out of sync.
BROKERS = {**SESSIONS, "replica.lag.time.max.ms": "5000", "min.insync.replicas": "1"}


def test_brokers_under_kwire_controllers_lose_no_acknowledged_record(tmp_path: Path) -> None:
    """A broker is killed, the controllers' leader is, a broker shuts down; all the while Java's
    producer produces.
    """
    need_java()
    with (
        own_quorum(3, static_voters=False, properties=CONTROLLERS) as own,
        real_brokers(own, 2, properties=BROKERS) as brokers,
    ):
        one, other = brokers.nodes
        create = [
            "--create",
            "--topic",
            TOPIC,
            "--partitions",
            str(PARTITIONS),
            "--replication-factor",
            "2",
        ]
        assert TOPIC in brokers.tool(java.TOPICS, create)
        everybody = frozenset({one.node_id, other.node_id})
        until(
            lambda: partitions(brokers, TOPIC),
            "all replicas are in sync",
            lambda told: all(part.in_sync == everybody for part in told),
        )
        assert {part.leader for part in partitions(brokers, TOPIC)} == everybody
        producer = Producer.start(brokers, TOPIC, RECORDS, PER_SECOND, tmp_path)
        producer.produce_until(5000)
        a_broker_is_killed(brokers, own, everybody)
        a_broker_shuts_down(brokers, everybody)
        sent, failed = producer.result()
        assert not failed and len(sent) == RECORDS
        read = consume(brokers, TOPIC, RECORDS)
        assert sent == read
        assert {int(value) for _, _, value in read} == set(range(RECORDS))
        problems = brokers.errors() + errors(own)
        assert problems == [], "\n".join(problems)
        assert (
            '"api": "CreateTopics", "principal": "User:ANONYMOUS", "host": "127.0.0.1", '
            '"client_id": "admin' in own.output_end()
        )


def errors(own: OwnCluster) -> list[str]:
    """The errors in the logs of the kwire nodes."""
    return [line for line in own.output_end().splitlines() if '"level": "error"' in line]


def a_broker_is_killed(brokers: Cluster, own: OwnCluster, everybody: frozenset[int]) -> None:
    """It is fenced, leads nothing and is in no ISR; the active controller dies meanwhile. Back, it
    is in sync again.
    """
    survivor, victim = brokers.nodes
    since = time.monotonic()
    brokers.kill_node(victim)
    leader = own.wait_for_leader()
    own.kill_node(leader)
    alone = frozenset({survivor.node_id})
    until(
        lambda: partitions(brokers, TOPIC),
        "the survivor leads all partitions",
        lambda told: all(part.leader == survivor.node_id for part in told),
    )
    FIGURES.append(
        f"real brokers: leaders moved {time.monotonic() - since:.1f} s after broker and "
        "controller were killed"
    )
    until(
        lambda: partitions(brokers, TOPIC),
        "the survivor is alone in sync",
        lambda told: all(part.in_sync == alone for part in told),
    )
    until(lambda: fenced(brokers), "the victim is fenced", lambda told: told[victim.node_id])
    own.start_node(leader)
    brokers.start_node(victim)
    brokers.wait_for_node(victim)
    until(
        lambda: partitions(brokers, TOPIC),
        "all replicas are in sync",
        lambda told: all(part.in_sync == everybody for part in told),
    )
    assert not any(fenced(brokers).values())


def a_broker_shuts_down(brokers: Cluster, everybody: frozenset[int]) -> None:
    """In a controlled shutdown the broker's partitions are led by the other one before it ends,
    without a time-out.
    """
    leaving, staying = brokers.nodes
    assert any(part.leader == leaving.node_id for part in partitions(brokers, TOPIC))
    brokers.stop_node(leaving)
    until(
        lambda: partitions(brokers, TOPIC),
        "the other broker leads all partitions",
        lambda told: all(part.leader == staying.node_id for part in told),
    )
    brokers.start_node(leaving)
    brokers.wait_for_node(leaving)
    until(
        lambda: partitions(brokers, TOPIC),
        "all replicas are in sync",
        lambda told: all(part.in_sync == everybody for part in told),
    )
