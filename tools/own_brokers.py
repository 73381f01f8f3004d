"""Runs kwire's brokers under controllers that are other processes, kwire's or Kafka's: ``with
own_brokers(cluster, 2) as brokers:``.

The interface is that of ``tools.kafka``: brokers can be killed, paused, stopped and started again.
Kafka's brokers may belong to the same cluster (``tools.kafka``, ``tools.real_brokers``).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.kafka import Cluster
from tools.kafka_files import Node, Shape
from tools.own_quorum import OwnCluster, run_kwire
from tools.process import lasting_ports
from tools.real_brokers import SESSIONS
from tools.tcp_proxy import Network

#: Of the first broker: those of Kafka's brokers begin at 101.
FIRST_ID = 201


@dataclass
class OwnBrokers(OwnCluster):
    """Running brokers of kwire; by the properties ``quorum`` they find the controllers."""

    quorum: Mapping[str, str] = field(default_factory=dict)

    def format_node(self, node: Node) -> None:
        """``kwire format``. Raises ProcessError."""
        where = ["--cluster-id", self.cluster_id, "--config", str(node.properties)]
        run_kwire(["format", *where])

    def _addresses(self, node: Node) -> dict[str, str]:
        values = {
            "process.roles": "broker",
            "node.id": str(node.node_id),
            "data.dir": str(node.log_dir),
            # The names of Kafka's nodes in ``tools.kafka``: brokers find one another by them.
            "listeners": f"BROKER://{node.broker_address}",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            **self.quorum,
        }
        if self.network is not None:
            address = self.network.address(node.node_id, "BROKER")
            values["advertised.listeners"] = f"BROKER://{address}"
        return values


@contextlib.contextmanager
def own_brokers(
    controllers: Cluster,
    brokers: int = 1,
    *,
    properties: Mapping[str, str] | None = None,
    node_properties: Callable[[Node], Mapping[str, str]] | None = None,
    directory: Path | None = None,
    network: Network | None = None,
    before: Sequence[str] = (),
) -> Iterator[OwnBrokers]:
    """Yield brokers that are registered with the controllers among the nodes of ``controllers``,
    and unfenced; they are killed at the end of the block.

    Node ids are 201 and up. ``properties`` go into every file of properties, those of
    ``node_properties(node)`` into that broker's. ``network``: requests to these brokers, and to the
    controllers that it has, go through it. ``before``: a program that runs every broker, as of
    ``tools.own_quorum``. The directory is removed unless it was given or
    something failed. Raises ProcessError when a broker does not start.
    """
    scratch = directory or Path(tempfile.mkdtemp(prefix="kwire-brokers-"))
    ports = iter(lasting_ports(brokers))
    nodes = [
        Node(node_id, ("broker",), scratch / str(node_id), next(ports))
        for node_id in range(FIRST_ID, FIRST_ID + brokers)
    ]
    values = {"broker.heartbeat.interval.ms": SESSIONS["broker.heartbeat.interval.ms"]}
    cluster = OwnBrokers(
        Shape(controllers.version, brokers, 0),
        controllers.cluster_id,
        nodes,
        scratch,
        properties=values | dict(properties or {}),
        node_properties=node_properties,
        quorum=_quorum_properties(controllers, network),
        network=network,
        before=before,
    )
    if network is not None:
        for node in nodes:
            network.add(node.node_id, ("127.0.0.1", node.broker_port), "BROKER")
    with cluster.ended(keeps_directory=directory is not None):
        for node in nodes:
            node.directory.mkdir(parents=True, exist_ok=True)
            cluster.configure_node(node, {})
            cluster.format_node(node)
        cluster.start()
        yield cluster


def _quorum_properties(controllers: Cluster, network: Network | None) -> dict[str, str]:
    if isinstance(controllers, OwnCluster):
        return controllers.quorum_properties()
    found = [node for node in controllers.nodes if node.is_controller()]
    if controllers.shape.static_voters:
        voters = ",".join(f"{one.node_id}@{one.controller_address}" for one in found)
        return {"controller.quorum.voters": voters}
    addresses = [
        one.controller_address if network is None else network.address(one.node_id) for one in found
    ]
    return {"controller.quorum.bootstrap.servers": ",".join(addresses)}
