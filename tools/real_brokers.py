"""Runs Kafka brokers under kwire's controllers: ``with own_quorum(3) as own, real_brokers(own) as
brokers:``.

The interface is that of ``tools.kafka``: ``brokers.bootstrap`` for clients; brokers can be killed,
paused, stopped and started again. ``own`` manages kwire's nodes.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.java import KAFKA_VERSION
from tools.kafka import FAST_START, Cluster
from tools.kafka_files import Node, Shape, format_nodes, write_properties
from tools.own_quorum import OwnCluster
from tools.process import lasting_ports

FIRST_ID = 101
#: Broker sessions as short as a busy machine with few cores allows; the controllers need the same
#: values.
SESSIONS: Mapping[str, str] = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
}
#: A controller of Kafka logs these errors where its machine is busy.
_BUSY = re.compile(r"controller event queue overloaded|Exceptionally slow controller event")
_LINE = re.compile(r"\d\d:\d\d:\d\d\.\d+ (ERROR|FATAL|WARN|INFO|DEBUG|TRACE) ")


@dataclass
class RealBrokers(Cluster):
    """Running brokers of Kafka."""

    def errors(self) -> list[str]:
        """Return the lines that the brokers logged as errors, with the lines below them."""
        return logged_errors(self.nodes)


def logged_errors(nodes: Iterable[Node]) -> list[str]:
    """Return the lines that nodes of Kafka logged as errors, with the lines below them, but for
    reports that the machine is busy.
    """
    found = []
    for node in nodes:
        wanted = False
        for line in node.output().splitlines():
            if level := _LINE.match(line):
                wanted = level[1] in ("ERROR", "FATAL") and not _BUSY.search(line)
            if wanted:
                found.append(f"{node.node_id}: {line}")
    return found


@contextlib.contextmanager
def real_brokers(
    own: OwnCluster,
    brokers: int = 2,
    *,
    version: str = KAFKA_VERSION,
    properties: Mapping[str, str] | None = None,
    node_properties: Callable[[Node], Mapping[str, str]] | None = None,
    log_dirs: int = 1,
    options: Sequence[str] = FAST_START,
    directory: Path | None = None,
) -> Iterator[RealBrokers]:
    """Yield brokers that have registered with the controllers of ``own`` and are unfenced; they are
    killed at the end of the block.

    Node ids are 101 and up. ``properties`` go into every server.properties, those of
    ``node_properties(node)`` into that broker's. The directory is removed unless it was given or
    something failed. Raises JavaError without Java or Maven, ProcessError when a broker does not
    start.
    """
    scratch = directory or Path(tempfile.mkdtemp(prefix="kwire-brokers-"))
    replicas = str(min(brokers, 3))
    values = {
        **own.quorum_properties(),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        **(properties or {}),
    }
    shape = Shape(
        version, brokers, 0, own.static, voters=0, properties=values,
        node_properties=node_properties, log_dirs=log_dirs,
    )  # fmt: skip
    nodes = _make_nodes(brokers, scratch)
    cluster = RealBrokers(shape, own.cluster_id, nodes, scratch, options)
    with cluster.ended(keeps_directory=directory is not None):
        for node in nodes:
            node.directory.mkdir(parents=True)
            write_properties(shape, node, nodes)
        format_nodes(shape, own.cluster_id, nodes, nodes)
        cluster.start()
        yield cluster


def _make_nodes(brokers: int, directory: Path) -> list[Node]:
    ports = iter(lasting_ports(brokers))
    ids = range(FIRST_ID, FIRST_ID + brokers)
    return [Node(node_id, ("broker",), directory / str(node_id), next(ports)) for node_id in ids]
