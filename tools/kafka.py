"""Real Apache Kafka for tests and benches: ``with kafka() as cluster:`` has brokers that serve, and cleans up.

Runs the released jars. Every port is picked by the system, every directory is temporary; after a failure the
directory stays, and its path is told. Knows nothing of our own server.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import java
from tools.process import Process, ProcessError, accepts, free_ports

_STARTED = "Kafka Server started"
_PORT_TAKEN = ("Address already in use", "BindException")
_TRIES = 3

#: What a cluster of a few nodes on one small machine needs; anything may be overridden.
_DEFAULTS: Mapping[str, str] = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "250",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.recovery.threads.per.data.dir": "1",
}


@dataclass
class Node:
    """One Kafka process: its roles, ports and directories. ``log_dir`` holds ``__cluster_metadata-0``."""

    node_id: int
    roles: tuple[str, ...]
    directory: Path
    broker_port: int = 0
    controller_port: int = 0
    process: Process | None = field(default=None, repr=False)

    @property
    def log_dir(self) -> Path:
        return self.directory / "data"

    @property
    def metadata_log_dir(self) -> Path:
        return self.log_dir / "__cluster_metadata-0"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise ProcessError(f"node {self.node_id} is not started")
        return self.process.pid

    def is_broker(self) -> bool:
        return "broker" in self.roles

    def is_controller(self) -> bool:
        return "controller" in self.roles


@dataclass
class Cluster:
    """Running nodes of one cluster."""

    version: str
    cluster_id: str
    nodes: list[Node]
    directory: Path

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of the brokers."""
        return ",".join(f"127.0.0.1:{node.broker_port}" for node in self.nodes if node.is_broker())

    @property
    def controllers(self) -> str:
        """``host:port,...`` of the controllers' listeners."""
        return ",".join(f"127.0.0.1:{node.controller_port}" for node in self.nodes if node.is_controller())

    def tool(self, main_class: str, arguments: Sequence[str], timeout_s: float = 60) -> str:
        """Run one of Kafka's tools against the brokers; its output. Raises JavaError."""
        return java.run_tool(
            main_class, ["--bootstrap-server", self.bootstrap, *arguments], version=self.version, timeout_s=timeout_s
        )

    def start_node(self, node: Node, timeout_s: float = 60) -> None:
        """Start a node and wait until it serves. Raises ProcessError."""
        arguments = [str(node.directory / "server.properties")]
        options = ["-Xms128m", "-Xmx768m", "-Xshare:auto", "-XX:+UseG1GC"]
        line = java.command(java.SERVER, arguments, version=self.version, options=options, log_level="info")
        node.process = Process(f"Kafka {self.version} node {node.node_id}", line, node.directory / "server.out")

    def wait_for_node(self, node: Node, timeout_s: float = 60) -> None:
        """Return when the node says it started and its port answers. Raises ProcessError."""
        process = node.process
        if process is None:
            raise ProcessError(f"node {node.node_id} is not started")
        port = node.broker_port if node.is_broker() else node.controller_port
        process.wait_until(lambda: _STARTED in process.said(200_000) and accepts("127.0.0.1", port), timeout_s)

    def stop_node(self, node: Node, timeout_s: float = 30) -> None:
        """Controlled shutdown; killed when that takes longer than ``timeout_s``."""
        if node.process is not None:
            node.process.stop(timeout_s)
            node.process = None

    def stop(self) -> None:
        """Brokers first: their controlled shutdown needs a controller."""
        for node in sorted(self.nodes, key=Node.is_controller):
            self.stop_node(node)


@contextlib.contextmanager
def kafka(
    *,
    version: str = java.KAFKA_VERSION,
    brokers: int = 1,
    controllers: int = 0,
    properties: Mapping[str, str] | None = None,
    static_voters: bool = False,
) -> Iterator[Cluster]:
    """A running cluster; stopped and removed at the end of the block.

    ``controllers=0`` makes every node a combined one (broker and controller), otherwise roles are apart: node ids
    from 1 are controllers, brokers from 101. ``properties`` go into every server.properties. With ``static_voters``
    the quorum is named in ``controller.quorum.voters`` (kraft.version 0), else it is formatted as a dynamic one with
    the first controller as its only voter. Raises JavaError without Java or Maven, ProcessError when a node does not
    come up.
    """
    for left in reversed(range(_TRIES)):
        cluster = _prepare(version, _roles(brokers, controllers), dict(properties or {}), static_voters)
        try:
            _start(cluster)
            break
        except ProcessError as error:
            cluster.stop()
            if not left or not any(sign in str(error) for sign in _PORT_TAKEN):
                raise ProcessError(f"{error}\nlogs: {cluster.directory}") from error
            shutil.rmtree(cluster.directory)
    try:
        yield cluster
    except BaseException:
        cluster.stop()
        print(f"Kafka's logs are kept in {cluster.directory}", file=sys.stderr)
        raise
    cluster.stop()
    shutil.rmtree(cluster.directory)


def _roles(brokers: int, controllers: int) -> dict[int, tuple[str, ...]]:
    if not controllers:
        return dict.fromkeys(range(1, brokers + 1), ("broker", "controller"))
    roles: dict[int, tuple[str, ...]] = dict.fromkeys(range(1, controllers + 1), ("controller",))
    return roles | {100 + number: ("broker",) for number in range(1, brokers + 1)}


def _prepare(version: str, roles: Mapping[int, tuple[str, ...]], extra: Mapping[str, str], static_voters: bool) -> Cluster:
    directory = Path(tempfile.mkdtemp(prefix="kwire-kafka-"))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    cluster = Cluster(version, cluster_id, [], directory)
    ports = iter(free_ports(2 * len(roles)))
    for node_id, node_roles in roles.items():
        node = Node(node_id, node_roles, directory / str(node_id), next(ports), next(ports))
        node.directory.mkdir()
        cluster.nodes.append(node)
    for node in cluster.nodes:
        values = {**_DEFAULTS, **_properties(node, cluster, static_voters), **extra}
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        (node.directory / "server.properties").write_text(text)
    _format(cluster, static_voters)
    return cluster


def _properties(node: Node, cluster: Cluster, static_voters: bool) -> dict[str, str]:
    listeners = []
    if node.is_broker():
        listeners.append(f"PLAINTEXT://127.0.0.1:{node.broker_port}")
    if node.is_controller():
        listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
    values = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(node.log_dir),
    }
    if static_voters:
        voters = [f"{n.node_id}@127.0.0.1:{n.controller_port}" for n in cluster.nodes if n.is_controller()]
        values["controller.quorum.voters"] = ",".join(voters)
    else:
        values["controller.quorum.bootstrap.servers"] = cluster.controllers
    return values


def _format(cluster: Cluster, static_voters: bool) -> None:
    first = next(node for node in cluster.nodes if node.is_controller())
    for node in cluster.nodes:
        arguments = ["format", "-t", cluster.cluster_id, "-c", str(node.directory / "server.properties")]
        if not static_voters:
            arguments.append("--standalone" if node is first else "--no-initial-controllers")
        java.run_tool(java.STORAGE, arguments, version=cluster.version)


def _start(cluster: Cluster) -> None:
    # Controllers and brokers at once: each waits for the other.
    for node in cluster.nodes:
        cluster.start_node(node)
    for node in cluster.nodes:
        cluster.wait_for_node(node)
