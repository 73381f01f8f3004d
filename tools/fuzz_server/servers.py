"""Runs the servers that are fuzzed, measures them, and decides which measurements are faults.

``plain``: listeners without authentication or authorizer. ``secured``: SASL PLAIN and SCRAM on both
listeners, StandardAuthorizer, delegation tokens. Each is an own quorum of separate processes.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kwire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.uuid import METADATA_TOPIC_ID
from tools.admin import Admin
from tools.fuzz_server.connections import Login
from tools.fuzz_server.values import TOPICS
from tools.gateway_process import ready_line
from tools.kafka_files import Node
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    sasl_server_properties,
)
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import cpu_seconds, memory_mib

#: How the servers can be set up.
SETUPS: Final = ("plain", "secured")
#: Resident memory that a run may add to a node at its peak: the default of buffers.max.bytes, MiB.
MEMORY_MIB: Final = 256.0
_ADMIN: Final = Login(ADMIN, ADMIN_PASSWORD)
#: Events below the level ``error`` that no request may cause.
_FAULTS: Final = frozenset({"leader changed", "leader resigns", "image behind"})
_COMMON: Final = {
    "management.listener": "127.0.0.1:0",
    "group.initial.rebalance.delay.ms": "5",
    "drain.timeout.ms": "500",
    "metadata.log.segment.bytes": "8388608",
}


@dataclass
class Server:
    """A running quorum, with its measurements at the begin of the run."""

    setup: str
    cluster: OwnCluster
    node: Node  #: the leader
    epoch: int
    before: Mapping[int, _Measured]

    @property
    def logins(self) -> tuple[Login, ...]:
        """Return the logins that the connections use in turn."""
        if self.setup == "plain":
            return (Login(),)
        return (_ADMIN, Login(OUTSIDER, OUTSIDER_PASSWORD)) * 4 + (Login(),)

    def port(self, listener: str, node: Node | None = None) -> int:
        """The port of ``BROKER`` or ``CONTROLLER``."""
        node = node or self.node
        return int(node.broker_port if listener == "BROKER" else node.controller_port)

    def begin_run(self) -> None:
        """Measure the nodes at the begin of a run."""
        self.before = {node.node_id: _measure(node) for node in self.cluster.nodes}


@dataclass(frozen=True)
class _Measured:
    """One node at one time."""

    log_bytes: int
    memory_mib: float
    memory_highest_mib: float
    cpu_s: float
    epoch: int
    internal_errors: int
    closes: Counter[str]  #: connections that the node closed, by rule


@dataclass
class Findings:
    """The effects of a run on the servers. ``faults`` are sentences."""

    faults: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)  #: lines of the watchdog
    memory_mib: dict[int, tuple[float, float]] = field(
        default_factory=dict
    )  #: before and highest, by node
    cpu_s: float = 0.0  #: processor time of all nodes
    closes: Counter[str] = field(
        default_factory=Counter
    )  #: connections that the nodes closed, by rule
    events: Counter[str] = field(default_factory=Counter)  #: lines of the log
    ports: set[int] = field(default_factory=set)  #: of clients in lines that are faults


@contextlib.contextmanager
def running(setup: str, nodes: int = 1) -> Iterator[Server]:
    """Start a quorum with some topics; it is stopped and removed at the end of the block."""
    properties = dict(_COMMON)
    if setup == "secured":
        properties |= sasl_server_properties("broker") | sasl_server_properties("controller") | {
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
            "delegation.token.secret.key": "for tests",
            "connection.failed.authentication.delay.ms": "1",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }  # fmt: skip
    with own_quorum(nodes, properties=properties) as cluster:
        leader = _wait_for_leader(cluster)
        with _admin(setup, leader) as admin:
            topics = [
                CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS
            ]
            admin.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000), accept=(36,))
        epoch = int(status(leader)["partition"]["leader_epoch"])
        yield Server(setup, cluster, leader, epoch, {})


def status(node: Node) -> dict[str, Any]:
    """The node's ``/status``. Raises OSError."""
    line = ready_line(node.running_process())
    assert line is not None, f"node {node.node_id} is not ready"
    with urllib.request.urlopen(f"http://{line['management']}/status", timeout=20) as answer:
        return dict(json.loads(answer.read()))


def examine(server: Server) -> Findings:
    """Measure the servers after the frames have been sent, and return the findings."""
    found = Findings()
    for node in server.cluster.nodes:
        if not node.running_process().running():
            found.faults.append(f"node {node.node_id} has ended")
            continue
        before, after = server.before[node.node_id], _measure(node)
        _compare(server, node, before, after, found)
        _read_log(node, before.log_bytes, found)
    try:
        _normal_client(server)
    except Exception as error:
        found.faults.append(f"a normal client fails afterwards: {type(error).__name__}: {error}")
    return found


def _measure(node: Node) -> _Measured:
    said = status(node)
    connections = said["connections"]
    closes = {
        "bad request": connections["bad_requests"],
        "request refused": connections["refused_requests"],
    }
    return _Measured(
        _log(node).stat().st_size,
        memory_mib(node.pid),
        memory_mib(node.pid, "VmHWM"),
        cpu_seconds(node.pid),
        said["partition"]["leader_epoch"],
        connections["internal_errors"],
        Counter({**closes, **connections["cut"]}),
    )


def _compare(
    server: Server, node: Node, before: _Measured, after: _Measured, found: Findings
) -> None:
    highest = after.memory_highest_mib
    found.memory_mib[node.node_id] = (before.memory_mib, highest)
    found.cpu_s += after.cpu_s - before.cpu_s
    found.closes += after.closes - before.closes
    if errors := after.internal_errors - before.internal_errors:
        found.faults.append(f"node {node.node_id}: {errors} internal errors")
    if after.epoch != server.epoch:
        found.faults.append(
            f"node {node.node_id}: an election, from epoch {server.epoch} to {after.epoch}"
        )
    if highest > before.memory_mib + MEMORY_MIB:
        found.faults.append(
            f"node {node.node_id}: {highest:.0f} MiB of memory, {before.memory_mib:.0f} before"
        )


def _read_log(node: Node, position: int, found: Findings) -> None:
    with _log(node).open("rb") as log:
        log.seek(position)
        for raw in log:
            try:
                line = json.loads(raw)
            except ValueError:
                found.faults.append(f"node {node.node_id} printed {raw[:300]!r}")
                continue
            event, level = line.get("event"), line.get("level")
            found.events[event] += 1 + line.get("suppressed", 0)
            if event == "event loop held":
                fields = {
                    key: line.get(key)
                    for key in ("milliseconds", "task", "api", "version", "correlation_id")
                }
                found.held.append(
                    " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
                )
            elif level == "error" or "exception" in line or event in _FAULTS:
                found.faults.append(f"node {node.node_id}: {json.dumps(line)}")
                _, _, port = str(line.get("peer", "")).rpartition(":")
                found.ports |= {int(port)} if port.isdigit() else set()


def _normal_client(server: Server) -> None:
    """Create and delete a topic, commit an offset, read the log. Raises AdminError."""
    with _admin(server.setup, server.node) as admin:
        topic = CreatableTopic(name="normal", num_partitions=1, replication_factor=1)
        admin.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), accept=(36,))
        admin.send(MetadataRequest(topics=[MetadataRequestTopic(name="normal")]), accept=(5,))
        admin.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="normal")], timeout_ms=10_000))
        committed = OffsetCommitRequestTopic(
            name="__cluster_metadata", topic_id=METADATA_TOPIC_ID,
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )  # fmt: skip
        admin.send(OffsetCommitRequest(group_id="normal", topics=[committed]))
        partition = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topic_fetch = FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
        fetched = admin.send(FetchRequest(topics=[topic_fetch], max_bytes=1 << 20))
        assert fetched.responses[0].partitions[0].records, "no records are read"


def _admin(setup: str, node: Node) -> Admin:
    login: Mapping[str, Any] = {"login": (ADMIN, ADMIN_PASSWORD)} if setup == "secured" else {}
    return Admin([node.broker_address], **login)


def _wait_for_leader(cluster: OwnCluster) -> Node:
    if len(cluster.nodes) == 1:
        return cluster.nodes[0]
    return cluster.wait_for_leader()


def _log(node: Node) -> Path:
    return node.directory / "server.out"
