"""Writes the files that a Kafka node needs before it starts: server.properties and a formatted
directory. It starts no server.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kwire.protocol import CLUSTER_METADATA_PARTITION
from tools import java, java_tools
from tools.process import Process, ProcessError, lasting_ports

#: Defaults for a cluster of a few nodes on one small machine; each may be overridden.
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
#: A broker of 4.2 to 4.4 whose last fetch is longer ago than this asks for the leader in a loop
#: without a pause, which takes a processor while there is none. It needs no timeout: when a request
#: fails it asks another controller.
_BROKER_FETCH_TIMEOUT: Final = {"controller.quorum.fetch.timeout.ms": "600000"}


@dataclass
class Node:
    """One Kafka process: its roles, ports and directories. ``log_dir`` holds
    ``__cluster_metadata-0``.
    """

    node_id: int
    roles: tuple[str, ...]
    directory: Path
    broker_port: int = 0
    controller_port: int = 0
    #: Of the log directory, in Kafka's 22 characters; known before the format for the voters of a
    #: dynamic quorum only.
    directory_id: str = ""
    process: Process | None = field(default=None, repr=False)

    @property
    def log_dir(self) -> Path:
        return self.directory / "data"

    @property
    def metadata_log_dir(self) -> Path:
        return self.log_dir / CLUSTER_METADATA_PARTITION

    @property
    def properties(self) -> Path:
        """Its server.properties, read at every start."""
        return self.directory / "server.properties"

    @property
    def controller_address(self) -> str:
        return f"127.0.0.1:{self.controller_port}"

    @property
    def broker_address(self) -> str:
        return f"127.0.0.1:{self.broker_port}"

    @property
    def pid(self) -> int:
        return self.running_process().pid

    def quorum_state(self) -> dict[str, Any]:
        """The content of its quorum-state. Raises OSError, ValueError."""
        found: dict[str, Any] = json.loads((self.metadata_log_dir / "quorum-state").read_text())
        return found

    def output(self) -> str:
        """Return what all its processes printed, the newest last."""
        files = sorted(self.directory.glob("server*.out"), key=lambda path: path.stat().st_mtime)
        return "".join(path.read_text(errors="replace") for path in files)

    def running_process(self) -> Process:
        """Its process. Raises ProcessError when it is not started."""
        if self.process is None:
            raise ProcessError(f"node {self.node_id} is not started")
        return self.process

    def is_broker(self) -> bool:
        return "broker" in self.roles

    def is_controller(self) -> bool:
        return "controller" in self.roles


@dataclass(frozen=True)
class Shape:
    """The arguments of ``tools.kafka.kafka``; its docstring says what each field means."""

    version: str
    brokers: int
    controllers: int
    static_voters: bool = False
    voters: int | None = None
    controller_protocol: str = "PLAINTEXT"
    broker_protocol: str = "PLAINTEXT"
    properties: Mapping[str, str] = field(default_factory=dict)
    node_properties: Callable[[Node], Mapping[str, str]] | None = None
    format_arguments: Sequence[str] = ()
    log_dirs: int = 1


def new_cluster_id() -> str:
    """A random uuid as Kafka writes them. Never begins with a dash, which a command line would take
    for an option.
    """
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith(
        "-"
    ):
        pass
    return text


def make_nodes(shape: Shape, directory: Path) -> list[Node]:
    """Nodes with ports of their own, their directories and server.properties; nothing is formatted
    yet.
    """
    roles = _roles(shape.brokers, shape.controllers)
    ports = iter(lasting_ports(2 * len(roles)))
    nodes = [
        Node(node_id, of, directory / str(node_id), next(ports), next(ports))
        for node_id, of in roles.items()
    ]
    for node in _voters(shape, nodes):
        node.directory_id = "" if shape.static_voters else new_cluster_id()
    for node in nodes:
        node.directory.mkdir()
        write_properties(shape, node, nodes)
    return nodes


def write_properties(
    shape: Shape, node: Node, nodes: Sequence[Node], extra: Mapping[str, str] | None = None
) -> None:
    """Write the node's server.properties; ``extra`` comes before everything else."""
    own = shape.node_properties(node) if shape.node_properties else {}
    values = {
        **_DEFAULTS,
        **_properties(shape, node, nodes),
        **shape.properties,
        **({} if node.is_controller() else _BROKER_FETCH_TIMEOUT),
        **own,
        **(extra or {}),
    }
    node.properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))


def format_nodes(
    shape: Shape, cluster_id: str, formatted: Sequence[Node], nodes: Sequence[Node]
) -> None:
    """Run Kafka's storage tool for the nodes in ``formatted``, some of the cluster's ``nodes``.
    Raises JavaError.
    """

    # One after the other, in one virtual machine: the start of a second one takes longer.
    for node in formatted:
        java_tools.run_tool(
            java.STORAGE, _format_arguments(shape, cluster_id, node, nodes), version=shape.version
        )


def _roles(brokers: int, controllers: int) -> dict[int, tuple[str, ...]]:
    if not controllers:
        return dict.fromkeys(range(1, brokers + 1), ("broker", "controller"))
    roles: dict[int, tuple[str, ...]] = dict.fromkeys(range(1, controllers + 1), ("controller",))
    return roles | {100 + number: ("broker",) for number in range(1, brokers + 1)}


def _voters(shape: Shape, nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.is_controller()][: shape.voters]


def _properties(shape: Shape, node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    listeners = []
    if node.is_broker():
        listeners.append(f"BROKER://{node.broker_address}")
    if node.is_controller():
        listeners.append(f"CONTROLLER://{node.controller_address}")
    log_dirs = [
        node.log_dir,
        *(node.directory / f"data-{number}" for number in range(2, shape.log_dirs + 1)),
    ]
    values = {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": (
            f"BROKER:{shape.broker_protocol},CONTROLLER:{shape.controller_protocol}"
        ),
        "log.dirs": ",".join(map(str, log_dirs)) if node.is_broker() else str(node.log_dir),
        "metadata.log.dir": str(node.log_dir),
    }
    if node.is_broker():
        values["inter.broker.listener.name"] = "BROKER"
    controllers = [one for one in nodes if one.is_controller()]
    if shape.static_voters:
        voters = [f"{one.node_id}@{one.controller_address}" for one in controllers]
        values["controller.quorum.voters"] = ",".join(voters)
    else:
        values["controller.quorum.bootstrap.servers"] = ",".join(
            one.controller_address for one in controllers
        )
    return values


def _format_arguments(
    shape: Shape, cluster_id: str, node: Node, nodes: Sequence[Node]
) -> list[str]:
    arguments = ["format", "-t", cluster_id, "-c", str(node.properties), *shape.format_arguments]
    if shape.static_voters:
        return arguments
    voters = _voters(shape, nodes)
    if node not in voters:
        return [*arguments, "--no-initial-controllers"]
    named = [f"{one.node_id}@{one.controller_address}:{one.directory_id}" for one in voters]
    return [*arguments, "--initial-controllers", ",".join(named)]
