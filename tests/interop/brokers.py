"""Drives Kafka brokers, under any controller: produces and consumes with Kafka's Java programs,
and describes partitions and brokers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.admin import Admin
from tools.kafka import Cluster
from tools.process import Process

#: A producer that gives up nothing, and of whose records none comes twice.
_PATIENT = {
    "enable.idempotence": "true",
    "retries": "2147483647",
    "delivery.timeout.ms": "180000",
    "request.timeout.ms": "5000",
    "reconnect.backoff.max.ms": "200",
}


@dataclass
class Producer:
    """Java's producer, which says of every record whether it was acknowledged."""

    process: Process

    @classmethod
    def start(
        cls, brokers: Cluster, topic: str, records: int, per_second: int, directory: Path
    ) -> Producer:
        """``records`` of them, numbered, no faster than ``per_second``."""
        config = directory / "producer.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in _PATIENT.items()))
        arguments = [
            "--bootstrap-server",
            brokers.bootstrap,
            "--topic",
            topic,
            "--max-messages",
            str(records),
        ]
        arguments += [
            "--throughput",
            str(per_second),
            "--acks",
            "-1",
            "--command-config",
            str(config),
        ]
        line = java.command(java.VERIFIABLE_PRODUCER, arguments, version=brokers.version)
        return cls(Process("producer", line, directory / "producer.out"))

    def acknowledged(self) -> int:
        """How many were, so far."""
        return self.process.log.read_bytes().count(b'"producer_send_success"')

    def produce_until(self, acknowledged: int) -> None:
        """Return when so many were acknowledged. Raises ProcessError."""
        self.process.wait_until(lambda: self.acknowledged() >= acknowledged, PATIENCE_S)

    def result(self) -> tuple[set[tuple[int, int, str]], list[str]]:
        """At its end: (partition, offset, value) of what was acknowledged, and what was not."""
        until(lambda: not self.process.running(), "the producer has sent everything")
        events = list(_events(self.process.log.read_text()))
        sent = {
            (one["partition"], one["offset"], one["value"])
            for one in events
            if one["name"] == "producer_send_success"
        }
        return sent, [str(one) for one in events if one["name"] == "producer_send_error"]


def consume(
    brokers: Cluster, topic: str, records: int, timeout_s: float = PATIENCE_S
) -> set[tuple[int, int, str]]:
    """(partition, offset, value) of ``records`` of them, by Java's consumer in a group of
    its own.
    """
    arguments = [
        "--bootstrap-server",
        brokers.bootstrap,
        "--topic",
        topic,
        "--max-messages",
        str(records),
        "--verbose",
    ]
    arguments += ["--group-id", f"readers-of-{topic}", "--reset-policy", "earliest"]
    said = java_tools.run_tool(
        java.VERIFIABLE_CONSUMER, arguments, version=brokers.version, timeout_s=timeout_s
    )
    return {
        (one["partition"], one["offset"], one["value"])
        for one in _events(said)
        if one["name"] == "record_data"
    }


def _events(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


@dataclass(frozen=True)
class Partition:
    """One partition, as brokers tell clients."""

    leader: int
    in_sync: frozenset[int]
    replicas: tuple[int, ...]


def partitions(brokers: Cluster, topic: str) -> list[Partition]:
    """Of a topic, by index."""
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)])
    with Admin(running(brokers)) as admin:
        [described] = admin.send(request, accept=(5,)).topics
    found = sorted(described.partitions, key=lambda one: one.partition_index)
    return [
        Partition(one.leader_id, frozenset(one.isr_nodes), tuple(one.replica_nodes))
        for one in found
    ]


def fenced(brokers: Cluster) -> dict[int, bool]:
    """Of every registered broker: is it fenced? As a broker that runs knows it."""
    with Admin(running(brokers)) as admin:
        answer = admin.send(DescribeClusterRequest(endpoint_type=1, include_fenced_brokers=True))
    return {one.broker_id: one.is_fenced for one in answer.brokers}


def running(brokers: Cluster) -> list[str]:
    """Addresses of the brokers that run."""
    return [
        node.broker_address
        for node in brokers.nodes
        if node.is_broker() and node.process is not None
    ]
