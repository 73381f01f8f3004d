"""The controller of real brokers: topics created through a broker, a broker's registration, a fail-over; ours beside Kafka's.

Two brokers of Kafka are under either, with the same settings. What is created comes by way of a broker, in an Envelope; a
fail-over is over when a controller carries out a change again.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tools import java
from tools.admin import Admin
from tools.bench.commit import Side
from tools.java import KAFKA_VERSION
from tools.kafka import FAST_START, Cluster, kafka
from tools.kafka_files import Node
from tools.own_quorum import own_quorum
from tools.real_brokers import real_brokers

_ROUNDS = 3
_TOPIC_ALREADY_EXISTS = 36
_LINE = re.compile(r"(\d\d:\d\d:\d\d\.\d+) INFO .*(is now STARTING|has been unfenced)")


def run() -> list[dict[str, Any]]:
    """The rows; one that says what is missing where the bench cannot run."""
    try:
        java.java()
        java.class_path()
    except java.JavaError as error:
        return [{"what": "controller", "ok": False, "notes": f"not measured: {error}"}]
    with ExitStack() as stack:
        theirs = stack.enter_context(kafka(brokers=2, controllers=3, options=FAST_START, kill_at_end=True))
        ours = stack.enter_context(own_quorum(3, static_voters=False))
        brokers = stack.enter_context(real_brokers(ours, 2, kill_at_end=True))
        return list(compared(ours, brokers, theirs, rounds=_ROUNDS))


def compared(ours: Cluster, brokers: Cluster, theirs: Cluster, *, rounds: int) -> Iterator[dict[str, Any]]:
    """The rows of running clusters: our controllers, the brokers under them, and Kafka's cluster. The leaders are dead then."""
    yield _row("broker: registration to unfenced", "ms", _unfencing(brokers), _unfencing(theirs))
    sides = {"ours": Side(brokers.bootstrap, batches=2, replicas=2), "theirs": Side(theirs.bootstrap, batches=2, replicas=2)}
    for number in range(rounds + 1):
        for name in sorted(sides, reverse=bool(number % 2)):
            sides[name].round(counts=number > 0)
    own, their = sides["ours"], sides["theirs"]
    median, worst = statistics.median, max
    yield _row("createTopics through a broker", "ms (p50)", median(own.latencies), median(their.latencies))
    yield _row("createTopics through a broker", "ms (max)", worst(own.latencies), worst(their.latencies))
    yield _row("createTopics in batches, through a broker", "topics/s", median(own.rates), median(their.rates), more=True)
    yield _row("controller killed to first change", "ms", _failover(ours), _failover(theirs))


def _row(what: str, unit: str, own: float, their: float, *, more: bool = False) -> dict[str, Any]:
    return {
        "what": what, "unit": unit, "ours": own, "peer": f"Kafka {KAFKA_VERSION}", "theirs": their,
        "ratio": own / their if more else their / own, "notes": "three controllers, two brokers",
    }  # fmt: skip


def _unfencing(brokers: Cluster) -> float:
    """Median of what the brokers' own logs say, ms: from the start of their life cycle to the end of being fenced."""
    return statistics.median(_took_ms(node) for node in brokers.nodes if node.is_broker())


def _took_ms(node: Node) -> float:
    moments = [
        datetime.strptime(found[1], "%H:%M:%S.%f")
        for line in (node.directory / "server.out").read_text(errors="replace").splitlines()
        if (found := _LINE.match(line))
    ]
    return ((moments[1] - moments[0]).total_seconds() % 86_400) * 1000


def _failover(controllers: Cluster) -> float:
    """From ``kill -9`` of the active controller to the answer that a topic is created, by whoever is asked in turn, ms."""
    leader = controllers.wait_for_leader()
    others = [node.controller_address for node in controllers.nodes if node.is_controller() and node is not leader]
    topic = CreatableTopic(name="after-the-controller", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
    with Admin(others) as admin:
        began = time.perf_counter()
        controllers.kill_node(leader)
        admin.send(request, accept=(_TOPIC_ALREADY_EXISTS,))
        return 1000 * (time.perf_counter() - began)
