"""Kafka's controller and kwire's do the same with a broker that dies: where they place topics
before its session ends, and what becomes of its partitions when it is fenced and unregistered.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.unregister_broker_request import UnregisterBrokerRequest
from tests.interop.brokers import fenced, partitions, running
from tests.interop.clients import need_java
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.admin import Admin
from tools.gateway_process import ready_line
from tools.kafka import Cluster, Node, kafka
from tools.own_quorum import own_quorum
from tools.process import lasting_ports
from tools.real_brokers import real_brokers

pytestmark = pytest.mark.interop

#: Long enough to create a topic between the death of a broker and the end of its session.
_SESSION: Final = {"broker.session.timeout.ms": "20000"}
_BROKERS: Final = {**_SESSION, "broker.heartbeat.interval.ms": "500"}
_OFFLINE: Final = "kafka.controller:type=KafkaController,name=OfflinePartitionsCount"
_PARTITIONS: Final = 12


@contextlib.contextmanager
def under_kafka() -> Iterator[tuple[Cluster, Callable[[], int]]]:
    """Two brokers under Kafka's controller, and its count of offline partitions, over JMX."""
    with kafka(brokers=2, controllers=1, properties=_BROKERS) as cluster:
        [controller] = [node for node in cluster.nodes if node.is_controller()]
        url = _serve_jmx(controller)
        yield cluster, lambda: _offline_by_jmx(url)


def _serve_jmx(node: Node) -> str:
    """Have a virtual machine serve JMX; return the address."""
    [port] = lasting_ports(1)
    jcmd = Path(java.java()).resolve().with_name("jcmd")
    options = [f"jmxremote.port={port}", "jmxremote.authenticate=false", "jmxremote.ssl=false"]
    subprocess.run(
        [jcmd, str(node.pid), "ManagementAgent.start", *options],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    return f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"


def _offline_by_jmx(url: str) -> int:
    said = java_tools.run_tool(
        "org.apache.kafka.tools.JmxTool",
        ["--jmx-url", url, "--object-name", _OFFLINE, "--attributes", "Value", "--one-time"],
    )
    found = re.search(r",(\d+)\s*\Z", said)  # a line of names, and one of time and value
    assert found is not None, said
    return int(found[1])


@contextlib.contextmanager
def under_kwire(directory: Path) -> Iterator[tuple[Cluster, Callable[[], int]]]:
    """The same under kwire's controller."""
    properties = {**_SESSION, "management.listener": "127.0.0.1:0"}
    with (
        own_quorum(1, formatted=True, properties=properties) as own,
        real_brokers(own, 2, properties=_BROKERS, directory=directory) as brokers,
    ):
        yield brokers, lambda: _offline_by_prometheus(own.nodes[0])


def _offline_by_prometheus(node: Node) -> int:
    line = ready_line(node.running_process())
    assert line is not None, "the controller is ready"
    with urllib.request.urlopen(f"http://{line['management']}/metrics", timeout=PATIENCE_S) as page:
        families = parse_text(page.read().decode())
    return next(
        int(sample.value)
        for family in families
        for sample in family.samples
        if sample.name == "kafka_controller_kafkacontroller_offlinepartitionscount"
    )


def observed(brokers: Cluster, offline: Callable[[], int]) -> list[Any]:
    """Kill a broker, and create topics before and after its session ends. Return what is seen."""
    _, victim = [node for node in brokers.nodes if node.is_broker()]
    seen: list[Any] = []

    def look(topic: str) -> None:
        told = partitions(brokers, topic)
        seen.append(
            (
                sorted(Counter(one.replicas for one in told).items()),
                sorted(Counter((one.leader, one.in_sync) for one in told).items(), key=str),
                offline(),
            )
        )

    brokers.kill_node(victim)
    _create(brokers, "before")
    assert not fenced(brokers)[victim.node_id], "the session had ended before the topic was there"
    look("before")
    until(lambda: fenced(brokers)[victim.node_id], "the broker is fenced")
    until(lambda: any(one.leader < 0 for one in partitions(brokers, "before")))
    look("before")
    _create(brokers, "after")
    look("after")
    with Admin(running(brokers)) as admin:
        admin.send(UnregisterBrokerRequest(broker_id=victim.node_id))
    until(lambda: victim.node_id not in fenced(brokers), "the broker is not registered")
    look("before")
    return seen


def _create(brokers: Cluster, topic: str) -> None:
    one = CreatableTopic(name=topic, num_partitions=_PARTITIONS, replication_factor=1)
    with Admin(running(brokers)) as admin:
        admin.send(CreateTopicsRequest(topics=[one], timeout_ms=30_000))
    until(lambda: len(partitions(brokers, topic)) == _PARTITIONS, f"the broker knows {topic}")


def test_topics_of_a_dead_broker_are_placed_fenced_and_counted_as_kafka_does(
    tmp_path: Path,
) -> None:
    need_java()
    with under_kafka() as (brokers, offline):
        kafkas = observed(brokers, offline)
    with under_kwire(tmp_path / "brokers") as (brokers, offline):
        kwires = observed(brokers, offline)
    assert kwires == kafkas
    # So that the two are not alike by a fault of the test.
    half = _PARTITIONS // 2
    placed, _, _ = kafkas[0]
    assert placed == [((101,), half), ((102,), half)]
    assert [count for _, _, count in kafkas] == [0, half, half, half]
