"""Runs a quorum of kwire's as processes: ``with own_quorum(3) as cluster:`` runs three voters, and
removes them at the end.

The interface is that of ``tools.kafka``, so that a test can treat both clusters alike: kill, pause,
stop and wipe nodes, and find the leader. Every node listens for clients (``broker_address``) and
for the other nodes (``controller_address``).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.gateway_process import KWIRE, SERVE_ENV, ready_line
from tools.java import KAFKA_VERSION
from tools.kafka import Cluster
from tools.kafka_files import Node, Shape, new_cluster_id
from tools.loop_reports import loop_reports
from tools.process import PATIENCE_S, Process, ProcessError, lasting_ports
from tools.tcp_proxy import Network

#: Elections as fast as a busy machine with few cores allows.
QUICK: Mapping[str, str] = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "600",
}
_ROLES = ("broker", "controller")
#: Level that quorums are formatted with: the newest metadata.version that Kafka's nodes of these
#: tests know.
RELEASE = KAFKA_VERSION.rpartition(".")[0]


@dataclass
class OwnCluster(Cluster):
    """Running nodes of kwire's quorum. ``network``, if there is one, carries the connections to
    the listeners that it has proxies for, so that a test can cut them. ``before`` is a command line
    that starts each node's command, such as strace.
    """

    network: Network | None = None
    before: Sequence[str] = ()
    static: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    node_properties: Callable[[Node], Mapping[str, str]] | None = None
    release: str = RELEASE

    def start_node(self, node: Node) -> None:
        """Start a node on its ports and directory, for the first time or again; does not wait for
        it.
        """
        output = node.directory / "server.out"
        if output.exists():  # the output of the process before must not count as this one's
            output.rename(node.directory / f"server-{time.monotonic_ns()}.out")
        line = [*self.before, *KWIRE, "serve", "--config", str(node.properties)]
        node.process = Process(f"kwire serve, node {node.node_id}", line, output, SERVE_ENV)
        loop_reports.watch(node.process)

    def wait_for_node(self, node: Node, timeout_s: float = PATIENCE_S) -> None:
        """Return when the node reports that it is ready. Raises ProcessError."""
        process = node.running_process()
        process.wait_until(lambda: ready_line(process) is not None, timeout_s, interval_s=0.005)

    def wipe_node(self, node: Node) -> None:
        """Remove the directory of a stopped node and format it again, as after the loss of a disk.
        In a dynamic quorum the node then has another directory id, and is no voter.
        """
        if node.process is not None:
            raise ProcessError(f"node {node.node_id} runs: stop it before its directory is wiped")
        shutil.rmtree(node.log_dir)
        node.directory_id = ""
        self.format_node(node)

    def configure_node(self, node: Node, extra: Mapping[str, str]) -> None:
        """Write the node's properties with ``extra``; they hold from its next start on."""
        own = self.node_properties(node) if self.node_properties else {}
        values = {**self._addresses(node), **self.properties, **own, **extra}
        node.properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def format_node(self, node: Node) -> None:
        """``kwire format``. Raises ProcessError."""
        arguments = [
            "format",
            "-t",
            self.cluster_id,
            "-c",
            str(node.properties),
            "--release-version",
            self.release,
        ]
        if not self.static and not node.directory_id:
            arguments.append("--no-initial-controllers")
        elif not self.static:
            arguments += [
                "--initial-controllers",
                ",".join(f"{self._voter(one)}:{one.directory_id}" for one in self.nodes),
            ]
        run_kwire(arguments)

    def quorum_properties(self) -> dict[str, str]:
        """Return the properties with which a node, of Kafka too, finds this quorum: static voters
        by name, others by bootstrap servers.
        """
        if self.static:
            return {"controller.quorum.voters": ",".join(map(self._voter, self.nodes))}
        return {"controller.quorum.bootstrap.servers": ",".join(map(self.peer_address, self.nodes))}

    def peer_address(self, node: Node) -> str:
        """Return the address at which other nodes reach a node: its proxy's, if it has one."""
        return (
            node.controller_address if self.network is None else self.network.address(node.node_id)
        )

    def _voter(self, node: Node) -> str:
        return f"{node.node_id}@{self.peer_address(node)}"

    def _addresses(self, node: Node) -> dict[str, str]:
        values = {
            "process.roles": "controller",
            "node.id": str(node.node_id),
            "data.dir": str(node.log_dir),
            "state.dir": str(node.directory / "state"),
            "listeners": f"BROKER://{node.broker_address},CONTROLLER://{node.controller_address}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        if self.network is not None:
            shown = {"BROKER": node.broker_address, **self.network.listeners(node.node_id)}
            values["advertised.listeners"] = ",".join(
                f"{name}://{address}" for name, address in shown.items()
            )
        return values | (self.quorum_properties() if len(self.nodes) > 1 else {})


def run_kwire(arguments: Sequence[str]) -> None:
    """Run a command that ends by itself. Raises ProcessError."""
    done = subprocess.run(
        [*KWIRE, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode != 0:
        raise ProcessError(
            f"kwire {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )


@contextlib.contextmanager
def own_quorum(
    nodes: int = 3,
    *,
    properties: Mapping[str, str] | None = None,
    node_properties: Callable[[Node], Mapping[str, str]] | None = None,
    ids: Sequence[int] | None = None,
    static_voters: bool | None = None,
    network: Network | None = None,
    formatted: bool | None = None,
    before: Sequence[str] = (),
    directory: Path | None = None,
    start: bool = True,
    kill_at_end: bool = True,
    release: str = RELEASE,
) -> Iterator[OwnCluster]:
    """Yield a running quorum, which is stopped and removed at the end of the block.

    Node ids are 1 to ``nodes``, or ``ids``. ``properties`` go into every node's file, those of
    ``node_properties(node)`` into that node's. With ``static_voters`` the voters are in the
    configuration (kraft.version 0), else in the log; by default a single node's are in its log.
    ``network``: the requests to controllers go through it, and those to brokers of nodes that are
    both; it is closed at the end. ``formatted``: whether
    ``kwire format`` runs first; by default for all but a single node, which formats itself.
    ``release``: the metadata.version to format, by default that of the Kafka nodes in tests.
    ``before``: a program that runs every node, such as strace. ``start``: whether to start nodes.
    ``kill_at_end``: kill them, because the last node could not hand over its leadership.

    The directory is removed unless it was given or something failed. Raises ProcessError when a
    node does not start.
    """
    with contextlib.ExitStack() as stack:
        scratch = directory or Path(tempfile.mkdtemp(prefix="kwire-own-"))
        ids = ids or range(1, nodes + 1)
        static = len(ids) > 1 if static_voters is None else static_voters
        cluster = OwnCluster(
            Shape(KAFKA_VERSION, nodes, nodes, static),
            new_cluster_id(),
            _make_nodes(ids, scratch),
            scratch,
            before=before,
            static=static,
            properties=dict(properties or {}),
            node_properties=node_properties,
            release=release,
        )
        if network is not None:
            _put_between(stack.enter_context(network), cluster)
        with cluster.ended(keeps_directory=directory is not None, kill=kill_at_end):
            _prepare(cluster, len(ids) > 1 if formatted is None else formatted)
            if start:
                cluster.start()
            yield cluster


def _put_between(network: Network, cluster: OwnCluster) -> None:
    cluster.network = network
    is_broker = "broker" in cluster.properties.get("process.roles", "")
    for node in cluster.nodes:
        network.add(node.node_id, ("127.0.0.1", node.controller_port))
        if is_broker:
            network.add(node.node_id, ("127.0.0.1", node.broker_port), "BROKER")


def _make_nodes(ids: Sequence[int], directory: Path) -> list[Node]:
    ports = iter(lasting_ports(2 * len(ids)))
    return [
        Node(
            node_id,
            _ROLES,
            directory / str(node_id),
            next(ports),
            next(ports),
            directory_id=new_cluster_id(),
        )
        for node_id in ids
    ]


def _prepare(cluster: OwnCluster, formatted: bool) -> None:
    for node in cluster.nodes:
        node.directory.mkdir(parents=True, exist_ok=True)
        cluster.configure_node(node, {})
        if formatted and not node.log_dir.exists():
            cluster.format_node(node)
