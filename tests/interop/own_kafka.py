"""Mixed quorums of kwire nodes and Kafka controllers: a Kafka controller observes a kwire
quorum, or a kwire node votes in a Kafka quorum.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.interop.quorum import QUICK_ELECTIONS
from tools.java import KAFKA_VERSION
from tools.kafka import FAST_START, Cluster
from tools.kafka_files import Node, Shape, format_nodes, make_nodes, write_properties
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import PATIENCE_S

NON_ELECTABLE = 3
#: Errors of every Kafka node: another controller is not active yet, and the machine is slow.
_USUAL = ("apiKey=CONTROLLER_REGISTRATION", "Exceptionally slow controller event")
_TROUBLE = re.compile(r"\d\d:\d\d:\d\d\.\d+ (ERROR|FATAL) ")


@contextlib.contextmanager
def observed_by_kafka(
    own: OwnCluster, directory: Path, properties: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Node]:
    """A real controller that is no voter: it finds our leader by its bootstrap servers, and fetches
    from it.
    """
    values = {"controller.quorum.bootstrap.servers": own.controllers, **properties}
    shape = Shape(KAFKA_VERSION, 0, 1, voters=0, properties=values)
    [node] = nodes = make_nodes(shape, directory)
    format_nodes(shape, own.cluster_id, nodes, nodes)
    cluster = Cluster(shape, own.cluster_id, nodes, directory, FAST_START)
    cluster.start_node(node)
    try:
        yield node
    finally:
        cluster.stop(kill=True)


@dataclass
class Mixed(Cluster):
    """Two Kafka controllers and a non-electable kwire voter, all static voters."""

    own: OwnCluster | None = None

    @property
    def non_electable(self) -> Node:
        return self.node(NON_ELECTABLE)

    @property
    def real(self) -> list[Node]:
        """Kafka's."""
        return [node for node in self.nodes if node.node_id != NON_ELECTABLE]

    def start_node(self, node: Node) -> None:
        if self.own is not None and node is self.non_electable:
            self.own.start_node(node)
        else:
            super().start_node(node)

    def wait_for_node(self, node: Node, timeout_s: float = PATIENCE_S) -> None:
        if self.own is not None and node is self.non_electable:
            self.own.wait_for_node(node, timeout_s)
        else:
            super().wait_for_node(node, timeout_s)


@contextlib.contextmanager
def with_non_electable(directory: Path) -> Iterator[Mixed]:
    """Start Kafka's nodes 1 and 2 and kwire's node 3, a non-electable voter, and wait for a
    leader.
    """
    with own_quorum(ids=[NON_ELECTABLE], static_voters=True, formatted=False, start=False) as own:
        [non_electable] = own.nodes
        values = {**QUICK_ELECTIONS, "metadata.max.idle.interval.ms": "0"}
        shape = Shape(KAFKA_VERSION, 0, 2, static_voters=True, properties=values)
        real = make_nodes(shape, directory)
        values["controller.quorum.voters"] = ",".join(
            f"{node.node_id}@{node.controller_address}" for node in (*real, non_electable)
        )
        for node in real:
            write_properties(shape, node, real)
        format_nodes(shape, own.cluster_id, real, real)
        own.configure_node(non_electable, {**values, "controller.quorum.campaign": "false"})
        own.format_node(non_electable)
        cluster = Mixed(
            shape, own.cluster_id, [*real, non_electable], directory, FAST_START, own=own
        )
        try:
            for node in cluster.nodes:
                cluster.start_node(node)
            for node in cluster.nodes:
                cluster.wait_for_node(node)
            cluster.wait_for_leader()
            yield cluster
        finally:
            cluster.stop(kill=True)


def complaints(node: Node) -> list[str]:
    """The errors that a Kafka node has logged since its first start, without those that Kafka
    controllers log about each other when one registers at an inactive one, or about a slow machine.
    """
    said = "".join(
        path.read_text(errors="replace") for path in sorted(node.directory.glob("server*.out"))
    )
    assert said, f"node {node.node_id} has logged nothing"
    return [
        line
        for line in said.splitlines()
        if _TROUBLE.match(line) and not any(usual in line for usual in _USUAL)
    ]
