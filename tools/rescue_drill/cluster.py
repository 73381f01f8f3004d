"""A cluster of Kafka that a case destroys and rescues, with the steps that all cases share. Which
controllers are lost, and from what they come back, is the case's.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tools import java, java_tools
from tools.gateway_process import KWIRE
from tools.kafka import Cluster, Node, kafka
from tools.kafka_security import sasl_server_properties
from tools.process import PATIENCE_S, ProcessError, lasting_ports
from tools.rescue_drill.traffic import TOPIC, Administrator, State, Traffic, produce_one, wait

BROKERS: Final = 2
CONTROLLERS: Final = 3
_RECORDS_BEFORE: Final = 200
_RECORDS_AFTER: Final = 100
#: The listener of clients that log in by SCRAM, beside the plain one.
_LOGINS: Final = "CLIENTS"
_AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
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
    """A cluster in a case. Its fields say what came out."""

    cluster: Cluster
    administrator: Administrator
    traffic: Traffic
    before: State
    times: Times = field(default_factory=Times)
    #: Brokers that ended, as the truncation below their high watermark makes them, and were started
    #: again.
    restarted: list[int] = field(default_factory=list)
    #: The answers of ``kwire rescue``.
    inspected: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    #: A Kafka release whose controller is started on a copy of what was written; None: it is not.
    kafka_home: Path | None = None
    _began: float = 0.0

    @property
    def controllers(self) -> list[Node]:
        """The controllers that the cluster started with."""
        return [one for one in self.cluster.nodes if one.is_controller()]

    @property
    def brokers(self) -> list[Node]:
        """All brokers."""
        return [one for one in self.cluster.nodes if one.is_broker()]

    def strike(self, killed: Sequence[Node], lost: Sequence[Node]) -> None:
        """Kill nodes, and remove the disks of those that are lost. The clock starts here."""
        self._began = time.monotonic()
        for node in killed:
            self.cluster.kill_node(node)
        for node in lost:
            shutil.rmtree(node.log_dir)

    def rescue(self, copies: Sequence[Path], targets: Sequence[Node], *how: str) -> None:
        """Inspect the copies, try the write, write from the best one into the targets' directories,
        and check the directories. Raises ProcessError.
        """
        self.inspected = kwire("inspect", *copies)["verdict"]
        best = self.inspected["best"]
        options = [
            "--from", best, *how,
            *(word for one in copies if str(one) != best for word in ("--copy", one)),
            *(word for one in targets for word in ("--to", one.log_dir)),
            *(word for one in targets for word in ("--voter", voter(one))),
        ]  # fmt: skip
        excluded = self.inspected["loss"]["excluded"]
        tried = kwire("write", *options)
        asked = "--accept-loss" in str(tried["refusals"])
        if asked == excluded or tried["written"]:
            raise ProcessError(f"a loss is excluded: {excluded}, and the dry run says: {tried}")
        self.written = kwire("write", *options, "--yes", *([] if excluded else ["--accept-loss"]))
        if not self.written["written"]:
            raise ProcessError(f"kwire rescue write: {self.written}")
        self._check(targets, best, differs="--drop-controllers" in how)

    def start(self, nodes: Sequence[Node]) -> None:
        """Start the rescued controllers, and return when the brokers serve under them: the times of
        a leader, of brokers that follow it, and of the first record of a new topic are taken.
        """
        for node in nodes:
            self.cluster.start_node(node)
        wait(lambda: any(self._leads(one) for one in nodes), "a rescued controller leads")
        self.times.leads = self._elapsed()
        self._followed()
        self.times.brokers_follow = self._elapsed()
        self.administrator.make_topic("later")
        produce_one(self.cluster.bootstrap, "later")
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
        seen = len(self.traffic.acknowledged)
        wait(
            lambda: len(self.traffic.acknowledged) >= seen + _RECORDS_AFTER, "records are produced"
        )
        self.traffic.stop()
        if lost := self.traffic.lost():
            raise ProcessError(f"{len(lost)} acknowledged records are gone: {sorted(lost)[:5]}")

    def bring_back(self, nodes: Sequence[Node]) -> None:
        """Format lost controllers anew, start them and make them voters; then kill the rescued one:
        the quorum goes on without it.
        """
        cluster = self.cluster
        [rescued] = [one for one in self.controllers if one not in nodes]
        cluster.shape = replace(cluster.shape, voters=0)  # --no-initial-controllers
        for node in nodes:
            cluster.wipe_node(node)
            cluster.start_node(node)
            cluster.wait_for_node(node)
            self._add(node)
        everyone = {one.node_id for one in self.controllers}
        wait(lambda: self.voters() == everyone, "all controllers vote")
        self.times.voters_back = self._elapsed()
        cluster.kill_node(rescued)
        self.administrator.make_topic("without-the-rescued")

    def voters(self) -> set[int]:
        """The voters, as Kafka's tool describes them. Raises JavaError."""
        rows = [
            row.split()
            for row in self._quorum_tool("describe", "--replication").splitlines()
            if row.strip()
        ]
        return {int(row[0]) for row in rows[1:] if row[-1] in _VOTING}

    def _add(self, node: Node) -> None:
        config = ["--command-config", str(node.properties)]
        java_tools.retried(lambda: self._quorum_tool(*config, "add-controller"), PATIENCE_S)

    def _quorum_tool(self, *words: str) -> str:
        at = ",".join(one.controller_address for one in self.controllers if one.process is not None)
        return java_tools.run_tool(
            java.METADATA_QUORUM,
            ["--bootstrap-controller", at, *words],
            version=self.cluster.version,
        )

    def _check(self, nodes: Sequence[Node], source: str, *, differs: bool) -> None:
        against = [] if differs else ["--from", source]
        if self.kafka_home is not None:
            against += ["--with-kafka", str(self.kafka_home)]
        checked = kwire("check", *(one.log_dir for one in nodes), *against)
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

    def _followed(self) -> None:
        """Return when both brokers follow a rescued controller and are unfenced. Start those that
        end, as a service manager does.
        """
        ids = {one.node_id for one in self.brokers}
        wait(lambda: all(map(self._follows, self.brokers)), "the brokers follow")
        wait(lambda: self.administrator.brokers() == ids, "the brokers are unfenced")

    def _follows(self, node: Node) -> bool:
        if not node.running_process().running():
            self.restarted.append(node.node_id)
            self.cluster.start_node(node)
        return bool(node.quorum_state()["leaderEpoch"] > self.written["epoch"])


@contextlib.contextmanager
def drill(version: str = java.KAFKA_VERSION, *, static_voters: bool = False) -> Iterator[Drill]:
    """Yield a cluster of three controllers and two brokers with a topic, its configuration, users
    and permissions, to which a producer writes all the time. Raises JavaError, ProcessError.
    """
    ports = lasting_ports(BROKERS)

    def properties(node: Node) -> Mapping[str, str]:
        if not node.is_broker():
            return _AUTHORIZER
        at = ports[node.node_id - 101]
        return _AUTHORIZER | _with_logins(node, at)

    with kafka(
        version=version, brokers=BROKERS, controllers=CONTROLLERS, static_voters=static_voters,
        node_properties=properties,
    ) as cluster:  # fmt: skip
        logins = ",".join(f"127.0.0.1:{port}" for port in ports)
        administrator = Administrator(cluster.bootstrap, logins)
        administrator.set_up()
        traffic = Traffic(cluster.bootstrap)
        wait(lambda: len(traffic.acknowledged) >= _RECORDS_BEFORE, "records are produced")
        yield Drill(cluster, administrator, traffic, administrator.state())


def kwire(*words: object) -> dict[str, Any]:
    """Run ``kwire rescue``, and return its JSON. Raises ProcessError."""
    line = [*KWIRE, "rescue", *map(str, words), "-o", "json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise ProcessError(f"kwire rescue {' '.join(map(str, words))}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
