"""A cluster of Kafka that a case destroys and rescues, with the steps that all cases share. Which
controllers are lost, and from what they come back, is the case's.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tools import java, java_tools
from tools.gateway_process import KWIRE
from tools.kafka import QUIET, Cluster, Node, kafka
from tools.kafka_files import write_properties
from tools.kafka_security import sasl_server_properties
from tools.process import PATIENCE_S, ProcessError, lasting_ports
from tools.rescue_drill.damage import Place, place_of
from tools.rescue_drill.services import kept_running
from tools.rescue_drill.traffic import (
    PARTITIONS,
    TOPIC,
    Administrator,
    State,
    Traffic,
    produce_one,
    wait,
)

BROKERS: Final = 2
CONTROLLERS: Final = 3
#: A controller beside the voters, whose release lacks what the others can do.
GHOST: Final = CONTROLLERS + 1
_GHOST_VERSION: Final = "3.9.2"
_GHOST_LEVEL: Final = "3.9-IV0"
#: ``ControllerRegistrationManager``, at its log.
_REGISTERED: Final = "Our registration has been persisted"
#: Records that are acknowledged before a case strikes, and after the rescue.
_RECORDS: Final = 100
#: The listener of clients that log in by SCRAM, beside the plain one.
_LOGINS: Final = "CLIENTS"
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_SNAPSHOTS: Final = {"metadata.log.max.snapshot.interval.ms": "3000"}
_VOTING: Final = ("Leader", "Follower")


@dataclass
class Times:
    """Seconds since the first controller was killed; None: the case does not do that."""

    leads: float | None = None
    brokers_follow: float | None = None
    produced: float | None = None
    voters_back: float | None = None


@dataclass
class Drill:
    """A cluster in a case, or in one case after the other. Its fields say what came out of the
    last one.
    """

    cluster: Cluster
    administrator: Administrator
    traffic: Traffic
    before: State
    exits: contextlib.ExitStack
    times: Times = field(default_factory=Times)
    #: Brokers that ended, as the truncation below their high watermark makes them, and were started
    #: again.
    restarted: list[int] = field(default_factory=list)
    #: The answers of ``kwire rescue``.
    inspected: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    #: A Kafka release whose controller is started on a copy of what was written; None: it is not.
    kafka_home: Path | None = None
    #: The number of the case on this cluster.
    number: int = 1
    _began: float = 0.0

    @property
    def controllers(self) -> list[Node]:
        """The voters that the cluster started with."""
        return [one for one in self.cluster.nodes if one.is_controller()][:CONTROLLERS]

    @property
    def brokers(self) -> list[Node]:
        """All brokers."""
        return [one for one in self.cluster.nodes if one.is_broker()]

    def begin_again(self) -> None:
        """Make the cluster whole after a case, and let the producer go on: the next case follows.
        Raises ProcessError, JavaError.
        """
        self.exits.close()
        down = [one for one in self.controllers if one.process is None]
        for node in down:
            self.cluster.start_node(node)
        for node in down:
            self.cluster.wait_for_node(node)
        self._all_vote()
        self.number += 1
        self.restarted.clear()
        self.times = Times()
        self.traffic.start()
        self._some_records()

    def strike(self, killed: Sequence[Node], lost: Sequence[Node]) -> None:
        """Kill nodes, and remove the disks of those that are lost. The clock starts here."""
        self._began = time.monotonic()
        for node in killed:
            self.cluster.kill_node(node)
        for node in lost:
            shutil.rmtree(node.log_dir)

    def make_topic(self, name: str) -> Place:
        """Make a topic with a record in each partition, and return the place of its record in the
        log of the first controller. Raises ProcessError.
        """
        self.administrator.make_topic(name, is_new=True)
        produce_one(self.cluster.bootstrap, name)
        place: Place = wait(lambda: place_of(self.controllers[0], name), f"{name} is in the log")
        return place

    def refused(self, copies: Sequence[Path], targets: Sequence[Node], why: str, *how: str) -> None:
        """Try a write, and raise ProcessError unless it is refused with these words."""
        found = kwire("write", *_options(copies[0], copies, targets), *how)["refusals"]
        if why not in str(found):
            raise ProcessError(f"kwire rescue write refuses with {found}, not with: {why}")

    def rescue(self, copies: Sequence[Path], targets: Sequence[Node], *how: str) -> None:
        """Inspect the copies, try the write, write from the best one into the targets' directories,
        and check the directories. Raises ProcessError.
        """
        self.inspected = kwire("inspect", *copies)["verdict"]
        best = Path(self.inspected["best"])
        options = [*_options(best, copies, targets), *how]
        keeps_all = self.inspected["loss"]["excluded"] and "--cut-at" not in how
        tried = kwire("write", *options)
        asked = "--accept-loss" in str(tried["refusals"])
        if asked == keeps_all or tried["written"]:
            raise ProcessError(f"a loss is excluded: {keeps_all}, and the dry run says: {tried}")
        self.written = kwire("write", *options, "--yes", *([] if keeps_all else ["--accept-loss"]))
        if not self.written["written"]:
            raise ProcessError(f"kwire rescue write: {self.written}")
        is_changed = "--drop-controllers" in how or "--cut-at" in how
        self._check(targets, *([] if is_changed else ["--from", best]))

    def start(self, nodes: Sequence[Node], *, brokers_end: bool = False) -> None:
        """Start the rescued controllers, and return when the brokers serve under them: the times of
        a leader, of brokers that follow it, and of the first record of a new topic are taken.
        Brokers that end are started again; ``brokers_end``: each of them has to.
        """
        self.exits.enter_context(kept_running(self.cluster, self.brokers, self.restarted))
        for node in nodes:
            self.cluster.start_node(node)
        wait(lambda: any(self._leads(one) for one in nodes), "a rescued controller leads")
        self.times.leads = self._elapsed()
        ids = {one.node_id for one in self.brokers}
        if brokers_end:
            wait(lambda: set(self.restarted) == ids, "each broker ends once")
        wait(lambda: all(map(self._follows, self.brokers)), "the brokers follow")
        wait(lambda: self.administrator.brokers() == ids, "the brokers are unfenced")
        self.times.brokers_follow = self._elapsed()
        produce_one(self.cluster.bootstrap, self._make_numbered("later"))
        self.times.produced = self._elapsed()

    def prove(self) -> None:
        """Raise ProcessError unless everything is there that was there, and all of it works."""
        found = wait(self.administrator.state, "the state can be read")
        if found != self.before:
            raise ProcessError(
                f"after the rescue the state is {found}, before it was {self.before}"
            )
        wait(lambda: self.administrator.is_in_sync(TOPIC), f"{TOPIC} is in sync")
        wait(self.administrator.can_login, "a SCRAM login works")
        self._some_records()
        self.traffic.stop()
        if lost := self.traffic.lost():
            raise ProcessError(f"{len(lost)} acknowledged records are gone: {sorted(lost)[:5]}")

    def is_stray(self, topic: str) -> None:
        """Raise ProcessError unless the topic is unknown, each broker keeps its partitions aside,
        and the topic can be made anew.
        """
        for node in self.brokers:
            if len(list(node.log_dir.glob(f"{topic}-*-stray"))) != PARTITIONS:
                raise ProcessError(f"broker {node.node_id} has not put {topic} aside")
        self.administrator.make_topic(topic, is_new=True)
        produce_one(self.cluster.bootstrap, topic)

    def upgrade(self) -> None:
        """Upgrade the features of the cluster to those of its tools' release. Raises JavaError."""
        level = java.tool_version(java.FEATURES, self.cluster.version).rpartition(".")[0]
        self._tool(java.FEATURES, "upgrade", "--release-version", level)

    def become_dynamic(self) -> None:
        """Upgrade kraft.version, and name no voters in the files of controllers that are down.
        Raises JavaError.
        """
        words = ["upgrade", "--feature", "kraft.version=1"]
        java_tools.retried(lambda: self._tool(java.FEATURES, *words), PATIENCE_S)
        cluster = self.cluster
        cluster.shape = replace(cluster.shape, static_voters=False)
        for node in self.controllers:
            if node.process is None:
                write_properties(cluster.shape, node, cluster.nodes)

    def lose_one(self) -> None:
        """Wait until all controllers vote, and kill the leader: the others go on."""
        self._all_vote()
        self.cluster.kill_node(self.cluster.wait_for_leader())
        self._make_numbered("without-one")

    def format_anew(self, node: Node) -> None:
        """Format the empty disk of a controller as one that does not vote yet. Raises JavaError."""
        self.cluster.shape = replace(self.cluster.shape, voters=0)  # --no-initial-controllers
        self.cluster.wipe_node(node)

    def bring_back(self, nodes: Sequence[Node]) -> None:
        """Format lost controllers anew, start them and make them voters; then kill the rescued one:
        the quorum goes on without it.
        """
        cluster = self.cluster
        [rescued] = [one for one in self.controllers if one not in nodes]
        for node in nodes:
            self.format_anew(node)
            cluster.start_node(node)
            cluster.wait_for_node(node)
            self._add(node)
        self._all_vote()
        cluster.kill_node(rescued)
        self._make_numbered("without-the-rescued")

    def voters(self) -> set[int]:
        """The voters, as Kafka's tool describes them. Raises JavaError."""
        # A controller that has not read the log yet refuses.
        said = java_tools.retried(
            lambda: self._tool(java.METADATA_QUORUM, "describe", "--replication"), PATIENCE_S
        )
        rows = [row.split() for row in said.splitlines() if row.strip()]
        return {int(row[0]) for row in rows[1:] if row[-1] in _VOTING}

    def _make_numbered(self, name: str) -> str:
        """Make a topic that no other case has made, and return its name."""
        numbered = f"{name}-{self.number}"
        self.administrator.make_topic(numbered, is_new=True)
        return numbered

    def _some_records(self) -> None:
        seen = len(self.traffic.acknowledged)
        wait(lambda: len(self.traffic.acknowledged) >= seen + _RECORDS, "records are produced")

    def _all_vote(self) -> None:
        everyone = {one.node_id for one in self.controllers}
        wait(lambda: self.voters() == everyone, "all controllers vote")
        self.times.voters_back = self._elapsed()

    def _add(self, node: Node) -> None:
        words = ["--command-config", str(node.properties), "add-controller"]
        java_tools.retried(lambda: self._tool(java.METADATA_QUORUM, *words), PATIENCE_S)

    def _tool(self, main_class: str, *words: str) -> str:
        at = ",".join(one.controller_address for one in self.controllers if one.process is not None)
        return java_tools.run_tool(
            main_class, ["--bootstrap-controller", at, *words], version=self.cluster.version
        )

    def _check(self, nodes: Sequence[Node], *against: object) -> None:
        kafka = [] if self.kafka_home is None else ["--with-kafka", self.kafka_home]
        checked = kwire("check", *(one.log_dir for one in nodes), *against, *kafka)
        if not checked["passed"]:
            raise ProcessError(f"kwire rescue check: {checked}")

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._began, 1)

    def _leads(self, node: Node) -> bool:
        process = node.running_process()
        if not process.running():
            raise ProcessError(f"{process.name} ended:\n{process.output_end()}")
        state = node.quorum_state()
        is_new = state["leaderEpoch"] > self.written["epoch"]
        return is_new and bool(state["leaderId"] == node.node_id)

    def _follows(self, node: Node) -> bool:
        return bool(node.quorum_state()["leaderEpoch"] > self.written["epoch"])


@contextlib.contextmanager
def drill(
    version: str = java.KAFKA_VERSION,
    *,
    static_voters: bool = False,
    ghost: bool = False,
    snapshots: bool = False,
) -> Iterator[Drill]:
    """Yield a cluster of three controllers and two brokers with a topic, its configuration, users
    and permissions, to which a producer writes all the time. ``ghost``: a controller of an older
    release has observed it, and is gone; ``snapshots``: nodes write one every few seconds. Raises
    JavaError, ProcessError.
    """
    ports = lasting_ports(BROKERS)

    def properties(node: Node) -> Mapping[str, str]:
        if not node.is_broker():
            return _AUTHORIZER
        at = ports[node.node_id - 101]
        return _AUTHORIZER | _with_logins(node, at)

    with kafka(
        version=version, brokers=BROKERS, controllers=CONTROLLERS + ghost, voters=CONTROLLERS,
        static_voters=static_voters, node_properties=properties,
        format_arguments=("--release-version", _GHOST_LEVEL) if ghost else (),
        properties=_SNAPSHOTS if snapshots else QUIET,
    ) as cluster:  # fmt: skip
        if ghost:
            _leave_ghost(cluster)
        logins = ",".join(f"127.0.0.1:{port}" for port in ports)
        administrator = Administrator(cluster.bootstrap, logins)
        administrator.set_up()
        traffic = Traffic(cluster.bootstrap)
        with contextlib.ExitStack() as exits:
            made = Drill(cluster, administrator, traffic, administrator.state(), exits)
            made._some_records()
            yield made


def _leave_ghost(cluster: Cluster) -> None:
    """Let the observing controller register once more as one of the older release, and end it."""
    node, shape = cluster.node(GHOST), cluster.shape
    cluster.stop_node(node)
    cluster.shape = replace(shape, version=_GHOST_VERSION)
    cluster.start_node(node)
    cluster.shape = shape
    process = node.running_process()
    process.wait_until(lambda: _REGISTERED in process.output_end(sys.maxsize), PATIENCE_S)
    cluster.kill_node(node)


def kwire(*words: object) -> dict[str, Any]:
    """Run ``kwire rescue``, and return its JSON. Raises ProcessError."""
    line = [*KWIRE, "rescue", *map(str, words), "-o", "json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise ProcessError(f"kwire rescue {' '.join(map(str, words))}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _options(source: Path, copies: Sequence[Path], targets: Sequence[Node]) -> list[object]:
    return [
        "--from", source,
        *(word for one in copies if one != source for word in ("--copy", one)),
        *(word for one in targets for word in ("--to", one.log_dir)),
        *(word for one in targets for word in ("--voter", voter(one))),
    ]  # fmt: skip


def voter(node: Node) -> str:
    """``ID@HOST:PORT``."""
    return f"{node.node_id}@{node.controller_address}"


def _with_logins(node: Node, port: int) -> dict[str, str]:
    return {
        "listeners": f"BROKER://{node.broker_address},{_LOGINS}://127.0.0.1:{port}",
        "listener.security.protocol.map": (
            f"BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,{_LOGINS}:SASL_PLAINTEXT"
        ),
        "offsets.topic.replication.factor": str(BROKERS),
        **sasl_server_properties(_LOGINS.lower()),
    }
