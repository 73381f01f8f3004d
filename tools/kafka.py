"""Runs Apache Kafka for tests and benches: ``with kafka() as cluster:`` gives a running cluster,
and removes it at the end.

It runs the released jars. The system picks every port, and every directory is temporary; after a
failure the directory stays, and its path is printed. It knows nothing of kwire.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools import java, java_tools
from tools.kafka_files import (
    Node,
    Shape,
    format_nodes,
    make_nodes,
    new_cluster_id,
    write_properties,
)
from tools.process import PATIENCE_S, Process, ProcessError, accepts

__all__ = ["AT_ONCE", "FAST_START", "FULL_SPEED", "QUIET", "Cluster", "Node", "kafka"]

_STARTED = "Kafka Server started"
_PORT_TAKEN = ("Address already in use", "BindException")
_TRIES = 3
#: Characters of the output of nodes that are printed after a failure.
_OUTPUT_MAX = 8000

#: For a broker whose speed is measured.
FULL_SPEED = ("-Xms128m", "-Xmx768m", "-Xshare:auto", "-XX:+UseG1GC")
#: For many nodes on few cores, started often: no second compiler, no collector threads, less
#: memory.
FAST_START = ("-Xms64m", "-Xmx384m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
#: For a cluster of which no test waits for more records of metadata. By default a controller that
#: has nothing to write appends a record every 500 ms, which every node takes: half of what an idle
#: node uses.
QUIET = {"metadata.max.idle.interval.ms": "5000"}
#: For a controller that gets thousands of requests, one after the other: it does not wait 25 ms for
#: more to write.
AT_ONCE = {"controller.quorum.append.linger.ms": "0"}


@dataclass
class Cluster:
    """Running nodes of one cluster."""

    shape: Shape
    cluster_id: str
    nodes: list[Node]
    directory: Path
    options: Sequence[str] = FAST_START
    #: Properties of a client that the controllers accept, for ``--command-config``; None if none
    #: are needed.
    client_config: Path | None = None
    _paused: set[int] = field(default_factory=set)

    @property
    def version(self) -> str:
        return self.shape.version

    @property
    def bootstrap(self) -> str:
        """``host:port,...`` of the brokers."""
        return ",".join(node.broker_address for node in self.nodes if node.is_broker())

    @property
    def controllers(self) -> str:
        """``host:port,...`` of the controllers' listeners."""
        return ",".join(node.controller_address for node in self.nodes if node.is_controller())

    def node(self, node_id: int) -> Node:
        """The node with this id."""
        return next(node for node in self.nodes if node.node_id == node_id)

    def tool(self, main_class: str, arguments: Sequence[str], timeout_s: float = PATIENCE_S) -> str:
        """Run one of Kafka's tools against the brokers, and return its output. Raises JavaError."""
        where = ["--bootstrap-server", self.bootstrap]
        return java_tools.run_tool(
            main_class, [*where, *arguments], version=self.version, timeout_s=timeout_s
        )

    def controller_tool(
        self, main_class: str, arguments: Sequence[str], timeout_s: float = PATIENCE_S
    ) -> str:
        """Run a tool that takes ``--bootstrap-controller`` against the controllers, and return its
        output. Raises JavaError.
        """
        where = ["--bootstrap-controller", self.controllers]
        if self.client_config is not None:
            where += ["--command-config", str(self.client_config)]
        return java_tools.run_tool(
            main_class, [*where, *arguments], version=self.version, timeout_s=timeout_s
        )

    def start_node(self, node: Node) -> None:
        """Start a node on its ports and directory, for the first time or again; does not wait for
        it.
        """
        line = java.command(
            java.SERVER,
            [str(node.properties)],
            version=self.version,
            options=self.options,
            log_level="info",
        )
        output = node.directory / "server.out"
        if output.exists():  # the output of the process before must not count as this one's
            output.rename(node.directory / f"server-{time.monotonic_ns()}.out")
        node.process = Process(f"Kafka {self.version} node {node.node_id}", line, output)

    def wait_for_node(self, node: Node, timeout_s: float = PATIENCE_S) -> None:
        """Return when the node reports its start and its port answers. Raises ProcessError."""
        process = node.running_process()
        port = node.broker_port if node.is_broker() else node.controller_port
        process.wait_until(
            lambda: _STARTED in process.output_end(sys.maxsize) and accepts("127.0.0.1", port),
            timeout_s,
        )

    def stop_node(self, node: Node, timeout_s: float = 30) -> None:
        """Stop the node by a controlled shutdown; kill it after ``timeout_s``."""
        if node.process is not None:
            self._paused.discard(node.node_id)
            node.process.stop(timeout_s)
            node.process = None

    def kill_node(self, node: Node) -> None:
        """Kill the node (``kill -9``), without a controlled shutdown. :meth:`start_node` starts it
        with the state on its disk.
        """
        self._paused.discard(node.node_id)
        node.running_process().kill()
        node.process = None

    def pause_node(self, node: Node) -> None:
        """Pause the node (``kill -STOP``): its connections stay open, and it answers nothing."""
        node.running_process().pause()
        self._paused.add(node.node_id)

    def resume_node(self, node: Node) -> None:
        """Resume the node (``kill -CONT``)."""
        node.running_process().resume()
        self._paused.discard(node.node_id)

    def wipe_node(self, node: Node) -> None:
        """Empty the directories of a stopped node and format them again, with a new directory id,
        as after the loss of a disk.
        """
        if node.process is not None:
            raise ProcessError(f"node {node.node_id} runs: stop it before its directory is wiped")
        for directory in node.directory.glob("data*"):
            shutil.rmtree(directory)
        node.directory_id = ""
        format_nodes(self.shape, self.cluster_id, [node], self.nodes)

    def configure_node(self, node: Node, extra: Mapping[str, str]) -> None:
        """Write the node's server.properties with ``extra``; they hold from its next start on."""
        write_properties(self.shape, node, self.nodes, extra)

    def leader(self) -> Node | None:
        """Return the controller that leads the metadata quorum; None if there is none, or it is
        down or paused.

        Read from the quorum-state files, which works with any listener security. A node writes the
        leader and its epoch there as soon as it knows them; a node that is behind has an older
        epoch.
        """
        states = []
        for node in self.nodes:
            if (
                node.is_controller()
                and node.process is not None
                and node.node_id not in self._paused
            ):
                with contextlib.suppress(OSError, ValueError):
                    states.append(node.quorum_state())
        newest = max(
            states,
            key=lambda state: (state["leaderEpoch"], state["leaderId"]),
            default={"leaderId": -1},
        )
        leader = next((node for node in self.nodes if node.node_id == newest["leaderId"]), None)
        up = (
            leader is not None and leader.process is not None and leader.node_id not in self._paused
        )
        return leader if up else None

    def wait_for_leader(self, timeout_s: float = PATIENCE_S) -> Node:
        """The leader, once there is one. Raises ProcessError."""
        deadline = time.monotonic() + timeout_s
        while (leader := self.leader()) is None:
            if time.monotonic() > deadline:
                raise ProcessError(
                    f"the quorum had no leader for {timeout_s:.0f} s; logs: {self.directory}"
                )
            time.sleep(0.02)
        return leader

    def output_end(self) -> str:
        """The output of all processes of all nodes, with a line before that of each node."""
        return "".join(f"--- node {node.node_id}\n{node.output()}" for node in self.nodes)

    def start(self) -> None:
        """Start all nodes, and return when they are ready. Raises ProcessError."""
        for node in self.nodes:
            self.start_node(node)
        for node in self.nodes:
            self.wait_for_node(node)

    @contextlib.contextmanager
    def ended(self, *, keeps_directory: bool, kill: bool = True) -> Iterator[None]:
        """At the end of the block stop the nodes, at once with ``kill``, and remove their directory
        unless ``keeps_directory``. After a failure print their output and keep it.
        """
        try:
            yield
        except BaseException:
            self.stop(kill=True)
            output = self.output_end()[-_OUTPUT_MAX:]
            print(f"{output}\nlogs and directories are kept in {self.directory}", file=sys.stderr)
            raise
        self.stop(kill=kill)
        if not keeps_directory:
            shutil.rmtree(self.directory)

    def stop(self, *, kill: bool = False) -> None:
        """Stop all nodes, brokers first: their controlled shutdown needs a controller. With
        ``kill`` all processes end at once.
        """
        for node in sorted(self.nodes, key=Node.is_controller):
            if not kill:
                self.stop_node(node)
            elif node.process is not None:
                self.kill_node(node)


@contextlib.contextmanager
def kafka(
    *,
    version: str = java.KAFKA_VERSION,
    brokers: int = 1,
    controllers: int = 0,
    properties: Mapping[str, str] | None = None,
    static_voters: bool = False,
    voters: int | None = None,
    log_dirs: int = 1,
    controller_protocol: str = "PLAINTEXT",
    broker_protocol: str = "PLAINTEXT",
    node_properties: Callable[[Node], Mapping[str, str]] | None = None,
    client_properties: Mapping[str, str] | None = None,
    format_arguments: Sequence[str] = (),
    options: Sequence[str] = FAST_START,
) -> Iterator[Cluster]:
    """Yield a running cluster, which is killed and removed at the end of the block, because a
    shutdown takes seconds.

    ``controllers=0`` makes every node a combined one (broker and controller), otherwise roles are
    apart: node ids from 1 are controllers, brokers from 101 (``brokers=0``: none). With
    ``static_voters`` the quorum is named in ``controller.quorum.voters`` (kraft.version 0), else it
    is formatted as a dynamic one (kraft.version 1) in which the first ``voters`` controllers vote,
    all of them when None. Brokers have ``log_dirs`` directories.

    ``properties`` go into every server.properties, those of ``node_properties(node)`` into that
    node's. The listeners are named CONTROLLER and BROKER and have the security protocols
    ``controller_protocol`` and ``broker_protocol``; their keys (``ssl.*``,
    ``listener.name.controller.*``) are in ``properties``, and those of a client of the controllers
    in ``client_properties``. ``format_arguments`` go to the storage tool (``--add-scram``, ...),
    ``options`` to every server's JVM.

    Raises JavaError without Java or Maven, ProcessError when a node does not start.
    """
    shape = Shape(
        version, brokers, controllers, static_voters, voters, controller_protocol, broker_protocol,
        dict(properties or {}), node_properties, tuple(format_arguments), log_dirs,
    )  # fmt: skip
    cluster = _started(shape, client_properties, options)
    try:
        yield cluster
    except BaseException:
        cluster.stop()
        print(f"Kafka's logs are kept in {cluster.directory}", file=sys.stderr)
        raise
    cluster.stop(kill=True)
    shutil.rmtree(cluster.directory)


def _started(
    shape: Shape, client_properties: Mapping[str, str] | None, options: Sequence[str]
) -> Cluster:
    """Return a running cluster; choose other ports if another process has taken one of them."""
    for left in reversed(range(_TRIES)):
        cluster = _prepare(shape, client_properties, options)
        try:
            _start(cluster)
            break
        except BaseException as error:
            cluster.stop()
            if not isinstance(error, ProcessError):
                raise
            if not left or not any(sign in str(error) for sign in _PORT_TAKEN):
                raise ProcessError(f"{error}\nlogs: {cluster.directory}") from error
            shutil.rmtree(cluster.directory)
    return cluster


def _prepare(
    shape: Shape, client_properties: Mapping[str, str] | None, options: Sequence[str]
) -> Cluster:
    directory = Path(tempfile.mkdtemp(prefix="kwire-kafka-"))
    cluster = Cluster(shape, new_cluster_id(), make_nodes(shape, directory), directory, options)
    if client_properties is not None:
        cluster.client_config = directory / "client.properties"
        cluster.client_config.write_text(
            "".join(f"{key}={value}\n" for key, value in client_properties.items())
        )
    format_nodes(shape, cluster.cluster_id, cluster.nodes, cluster.nodes)
    return cluster


def _start(cluster: Cluster) -> None:
    # Controllers first: a broker that starts during the first election may keep to a controller
    # that lost it, and never register.
    for controllers in (True, False):
        nodes = [node for node in cluster.nodes if node.is_controller() == controllers]
        for node in nodes:
            cluster.start_node(node)
        for node in nodes:
            cluster.wait_for_node(node)
