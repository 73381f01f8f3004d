"""Measures the controller of real brokers, kwire's beside Kafka's: topics created through a broker,
registration of a broker, failover.

Each controller has two Kafka brokers with the same settings. Topics are created through a broker,
in an Envelope; a failover ends when a controller carries out a change again. Failovers are measured
with the topics of this bench alone, and with ``KWIRE_BENCH_CONTROLLER_PARTITIONS`` partitions more
(100,000 by default; a multiple of 100), whose replicas are on brokers that are simulated.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any

from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.protocol import ErrorCode
from tools import java
from tools.admin import Admin
from tools.bench.commit import Side
from tools.java import KAFKA_VERSION
from tools.kafka import Cluster, kafka
from tools.kafka_files import Node
from tools.own_quorum import own_quorum
from tools.real_brokers import real_brokers
from tools.simulated_brokers import SimulatedBrokers, simulated_brokers

PARTITIONS = int(os.environ.get("KWIRE_BENCH_CONTROLLER_PARTITIONS", "100000"))
_MANY = "many"
_PARTITIONS_PER_TOPIC = 100
#: Topics of one request. Kafka's controllers make at most 10,000 records of one, and kwire's read
#: at most ``request.max.elements`` (20,000) array elements, four for each partition here.
_TOGETHER = 45
#: The simulated brokers, whose ids are not those of real ones.
_FIRST_ID, _SIMULATED = 1001, 3
_ROUNDS = 3
_KILLS = 5
#: Time in which a controller that started again catches up, s: with few topics, and with many.
_SETTLE_S, _SETTLE_MANY_S = 3, 10
_DAY_S = 86_400
_STARTS, _CAUGHT_UP, _WAITS, _UNFENCED = (
    "is now STARTING",
    "has caught up",
    "Waiting for the broker to be unfenced",
    "has been unfenced",
)
_LINE = re.compile(rf"(\d\d:\d\d:\d\d\.\d+) INFO .*({_STARTS}|{_CAUGHT_UP}|{_WAITS}|{_UNFENCED})")


def run() -> list[dict[str, Any]]:
    """Return the rows; one with the reason if the bench cannot run."""
    try:
        java.java()
        java.class_path()
    except java.JavaError as error:
        return [{"what": "controller", "ok": False, "notes": f"not measured: {error}"}]
    with ExitStack() as stack:
        cluster = stack.enter_context(kafka(brokers=2, controllers=3))
        quorum = stack.enter_context(own_quorum(3, static_voters=False))
        brokers = stack.enter_context(real_brokers(quorum, 2))
        rows = list(compared(quorum, brokers, cluster, rounds=_ROUNDS))
        if PARTITIONS:
            rows += filled_failovers(
                (quorum, brokers), (cluster, cluster), kills=_KILLS, partitions=PARTITIONS
            )
        return rows


def filled_failovers(
    *sides: tuple[Cluster, Cluster], kills: int, partitions: int, settle_s: float = _SETTLE_MANY_S
) -> list[dict[str, Any]]:
    """The rows of controllers that are killed while their clusters have ``partitions`` more, for
    kwire's (controllers, brokers) and Kafka's. A node that started has ``settle_s`` to catch up.
    """
    with ExitStack() as stack:
        for controllers, _ in sides:
            stack.enter_context(filled(controllers, partitions))
        time.sleep(settle_s)
        rows = list(_failovers(*sides, kills=kills, partitions=partitions, settle_s=settle_s))
        # New leaders of many partitions are work that only one side would have had.
        for name, (_, brokers) in zip(("kwire", "Kafka"), sides, strict=True):
            if not as_created(brokers):
                for row in rows:
                    row["notes"] += f"; {name} fenced a simulated broker"
        return rows


def compared(
    quorum: Cluster, brokers: Cluster, cluster: Cluster, *, rounds: int, kills: int = _KILLS
) -> Iterator[dict[str, Any]]:
    """The rows of running clusters: kwire's controllers, their brokers, and Kafka's cluster. Active
    controllers are killed and started again at the end.
    """
    (own_start, own_wait), (their_start, their_wait) = _unfencing(brokers), _unfencing(cluster)
    yield _row("broker: registration to unfenced", "ms", own_start, their_start)
    yield _row("broker: of that, waiting for the controller", "ms", own_wait, their_wait)
    sides = {
        "kwire": Side(brokers.bootstrap, batches=2, replicas=2),
        "Kafka": Side(cluster.bootstrap, batches=2, replicas=2),
    }
    for number in range(rounds + 1):
        for name in sorted(sides, reverse=bool(number % 2)):
            sides[name].round(counts=number > 0)
    own, their = sides["kwire"], sides["Kafka"]
    median, worst = statistics.median, max
    yield _row(
        "createTopics through a broker", "ms (p50)", median(own.latencies), median(their.latencies)
    )
    yield _row(
        "createTopics through a broker", "ms (max)", worst(own.latencies), worst(their.latencies)
    )
    yield _row(
        "createTopics in batches, through a broker",
        "topics/s",
        median(own.rates),
        median(their.rates),
        more=True,
    )
    yield from _failovers((quorum, brokers), (cluster, cluster), kills=kills)


@contextmanager
def filled(cluster: Cluster, partitions: int) -> Iterator[SimulatedBrokers]:
    """Create topics on brokers that are simulated, which live as long as the block. Real brokers
    read of them, and store nothing.
    """

    def active() -> str:
        return cluster.wait_for_leader().controller_address

    with (
        simulated_brokers(active, cluster.cluster_id, _SIMULATED, _FIRST_ID) as brokers,
        Admin([active()]) as to,
    ):
        # Each broker leads a third of the partitions of each topic.
        assignments = [
            CreatableReplicaAssignment(
                partition_index=n,
                broker_ids=[_FIRST_ID + (n + k) % _SIMULATED for k in range(_SIMULATED)],
            )
            for n in range(_PARTITIONS_PER_TOPIC)
        ]
        topics = [
            CreatableTopic(
                name=f"{_MANY}-{n}",
                num_partitions=-1,
                replication_factor=-1,
                assignments=assignments,
            )
            for n in range(partitions // _PARTITIONS_PER_TOPIC)
        ]
        for at in range(0, len(topics), _TOGETHER):
            request = CreateTopicsRequest(topics=topics[at : at + _TOGETHER], timeout_ms=60_000)
            to.send(request, accept=(ErrorCode.TOPIC_ALREADY_EXISTS,), timeout_s=120)
        yield brokers


def as_created(brokers: Cluster) -> bool:
    """Whether the partitions of the first of many topics kept their first leaders. If a simulated
    broker had been fenced, those that it led would have others.
    """
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"{_MANY}-0")])
    with Admin(brokers.bootstrap.split(",")) as admin:
        [topic] = admin.send(request).topics
    return all(one.leader_epoch == 0 for one in topic.partitions)


def _failovers(
    *sides: tuple[Cluster, Cluster],
    kills: int,
    partitions: int = 0,
    settle_s: float = _SETTLE_S,
) -> Iterator[dict[str, Any]]:
    """The rows of controllers that are killed, for kwire's cluster and for Kafka's: (controllers,
    brokers) of each. There are several kills in turn, because the time depends on the moment.
    """
    size = f", {partitions:,} partitions" if partitions else ""
    for where in ("", " through a broker"):
        waits: list[list[float]] = [[] for _ in sides]
        for number in range(kills):
            for (controllers, brokers), found in zip(sides, waits, strict=True):
                asked = brokers.bootstrap if where else controllers.controllers
                name = f"killed{len(where)}-{partitions}-{number}"
                found.append(_failover(controllers, asked.split(","), name, settle_s))
        own, their = map(statistics.median, waits)
        yield _row(f"controller killed to first change{where}{size}", "ms (p50)", own, their)


def _row(what: str, unit: str, own: float, their: float, *, more: bool = False) -> dict[str, Any]:
    return {
        "what": what,
        "unit": unit,
        "kwire": own,
        "peer": f"Kafka {KAFKA_VERSION}",
        "peer_value": their,
        "ratio": own / their if more else their / own,
        "notes": "three controllers, two brokers",
    }


def _unfencing(brokers: Cluster) -> tuple[float, float]:
    """Medians from the brokers' own logs, in ms: the time from the start of a broker's life cycle
    until it is unfenced, and the part of it in which the broker waits for the controller. The rest
    is the broker's own start.
    """
    lives = [_moments(node) for node in brokers.nodes if node.is_broker()]
    waits = [_ms(life, _STARTS, _CAUGHT_UP) + _ms(life, _WAITS, _UNFENCED) for life in lives]
    return statistics.median(_ms(life, _STARTS, _UNFENCED) for life in lives), statistics.median(
        waits
    )


def _moments(node: Node) -> dict[str, datetime]:
    """Return the time of the first line of each of these events in a broker's log."""
    found: dict[str, datetime] = {}
    for line in (node.directory / "server.out").read_text(errors="replace").splitlines():
        if match := _LINE.match(line):
            found.setdefault(match[2], datetime.strptime(match[1], "%H:%M:%S.%f"))
    return found


def _ms(life: dict[str, datetime], begin: str, end: str) -> float:
    """Return the ms from the first time to the second, also across midnight; 0 if the second is
    earlier, because the broker did not wait then.
    """
    seconds = (life[end] - life[begin]).total_seconds() % _DAY_S
    return 1000 * seconds if seconds < _DAY_S / 2 else 0.0


def _failover(controllers: Cluster, addresses: list[str], name: str, settle_s: float) -> float:
    """From ``kill -9`` of the active controller to the response to a CreateTopics request, which is
    sent to the other ``addresses`` in turn; in ms. The controller starts again afterwards.
    """
    leader = controllers.wait_for_leader()
    others = [address for address in addresses if address != leader.controller_address]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    with Admin(others) as admin:
        began = time.perf_counter()
        controllers.kill_node(leader)
        admin.send(request, accept=(ErrorCode.TOPIC_ALREADY_EXISTS,))
        took = 1000 * (time.perf_counter() - began)
    controllers.start_node(leader)
    controllers.wait_for_node(leader)
    time.sleep(settle_s)
    return took
