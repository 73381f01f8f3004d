"""Measures the effect of an attack on other clients, on a quorum of three processes.

::

    with attacked_quorum() as cluster:
        with bystander(cluster) as seen:
            attack(cluster.wait_for_leader().broker_address)
        seen.assert_undisturbed()

A server that holds its event loop shows as a pass with too many units of work
(``counted_server.py``), so that the machine has no part in the verdict. The latencies of the other
clients are noted for ``python -m tools.check waits``.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.hostile.counted_server import BEFORE, UNITS_MAX, longest_pass_of
from tests.hostile.probe import check_groups
from tests.speed import note, rounds
from tests.waiting import PATIENCE_S, until
from tools.gateway_process import ready_line
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster, own_quorum
from tools.process import memory_mib

#: The latency of ApiVersions that one request in a thousand exceeds on a quiet machine, s.
_USUAL_S: Final = 0.033
#: Two other nodes connect when they first need it: for raft, and for requests that they forward.
_PEER_CONNECTIONS = 4
#: Increases that Raft's own requests explain, which are parked and buffered at any moment.
_PARKED_NOISE, _BUFFERED_NOISE = 4, 64 * 1024


@contextlib.contextmanager
def attacked_quorum(
    properties: Mapping[str, str] | None = None, *, nodes: int = 3, **options: Any
) -> Iterator[OwnCluster]:
    """``kwire serve`` processes that vote, with a management port each, and a leader.

    ``properties`` are every node's; ``options`` as :func:`tools.own_quorum.own_quorum` takes them.
    """
    given = {
        "management.listener": "127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "10",
        "drain.timeout.ms": "500",
        # No election only because the processes of a busy machine wait for a processor.
        "controller.quorum.fetch.timeout.ms": "6000",
        "controller.quorum.request.timeout.ms": "6000",
        **(properties or {}),
    }
    with own_quorum(nodes, properties=given, **{"before": BEFORE, **options}) as cluster:
        cluster.wait_for_leader()
        for node in cluster.nodes:
            wait_until_ready(node)
        yield cluster


def with_listener(name: str) -> Callable[[Node], dict[str, str]]:
    """Return the ``node_properties`` that give each node the listener ``name`` besides its own."""

    def properties(node: Node) -> dict[str, str]:
        own = f"BROKER://{node.broker_address},CONTROLLER://{node.controller_address}"
        return {"listeners": f"{own},{name}://127.0.0.1:0"}

    return properties


def status(node: Node) -> dict[str, Any]:
    """The document ``/status`` of the node's management port. Raises OSError."""
    return dict(json.loads(_management(node, "/status")))


def wait_until_ready(node: Node) -> None:
    """Return when the node's ``/readyz`` says that it is ready."""
    until(lambda: _management(node, "/readyz"), f"node {node.node_id} is ready")


def listener_port(node: Node, listener: str) -> int:
    """The port that the node's listener really has."""
    line = ready_line(node.running_process())
    assert line is not None, f"node {node.node_id} is not ready"
    return int(line["listeners"][listener].rpartition(":")[2])


def _management(node: Node, path: str) -> bytes:
    line = ready_line(node.running_process())
    if line is None:
        raise ConnectionError(f"node {node.node_id} is not ready")
    with urllib.request.urlopen(f"http://{line['management']}{path}", timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


@dataclass
class Seen:
    """The measurements, complete after the block of :func:`bystander`."""

    latencies_s: dict[int, list[float]] = field(default_factory=dict)  #: of ApiVersions, by node id
    #: rounds that succeeded: ApiVersions, connect, group
    done: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)  #: requests that failed or were refused
    epochs: tuple[int, int] = (-1, -1)  #: before and after; they differ after an election
    #: units of work of the longest pass of the event loop, by node id
    longest_passes: dict[int, int] = field(default_factory=dict)
    #: peak resident memory over that before, by node id
    growth_mib: dict[int, float] = field(default_factory=dict)
    #: differences from the state before that remain after the attack
    unsettled: list[str] = field(default_factory=list)

    def disturbances(
        self,
        *,
        memory_mib: float = 64,
        new_connections: bool = True,
        elections: bool = False,
    ) -> list[str]:
        """A sentence for each effect on other clients.

        ``memory_mib`` bounds the growth of a process. ``new_connections`` false allows that new
        connections are refused, ``elections`` true allows a change of leader.
        """
        allowed = () if new_connections else ("connect",)
        found = [failure for failure in self.failures if not failure.startswith(allowed or ("\0",))]
        for name in {"ApiVersions", "connect", "group"} - {*allowed} - self.done.keys():
            found.append(f"no {name} succeeded")
        for node_id, units in self.longest_passes.items():
            if units > UNITS_MAX:
                found.append(f"node {node_id} did {units} units of work in one pass of its loop")
        if self.epochs[0] != self.epochs[1] and not elections:
            found.append(f"an election: the epoch went from {self.epochs[0]} to {self.epochs[1]}")
        for node_id, grown in self.growth_mib.items():
            if grown > memory_mib:
                found.append(f"node {node_id} grew by {grown:.0f} MiB")
        return found + self.unsettled

    def assert_undisturbed(self, **limits: Any) -> None:
        """Fail with all that :meth:`disturbances` finds, which takes the same arguments."""
        found = self.disturbances(**limits)
        assert not found, "\n".join(found[:20])


def assert_others_undisturbed(
    cluster: OwnCluster,
    attack: Callable[[], object],
    nodes: Sequence[Node] | None = None,
    **limits: Any,
) -> None:
    """Run ``attack`` beside a :func:`bystander` of ``nodes``, and fail as
    :meth:`Seen.assert_undisturbed` with ``limits`` does. Where speed is measured, that is repeated.
    """
    for _ in rounds():
        with bystander(cluster, nodes) as seen:
            attack()
        seen.assert_undisturbed(**limits)


@contextlib.contextmanager
def bystander(cluster: OwnCluster, nodes: Sequence[Node] | None = None) -> Iterator[Seen]:
    """Measure clients of ``nodes`` (all by default) while the block runs, then wait until the
    cluster has returned to its state before.

    Nodes that the block restarts must not be among ``nodes``. Measuring begins before the block and
    needs a quiet cluster.
    """
    watched = list(cluster.nodes if nodes is None else nodes)
    seen = Seen()
    named = [f"{node.node_id}={node.broker_address}={node.pid}" for node in watched]
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.probe", *named],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n", (
            "the bystander cannot be served"
        )
        before = {node.node_id: status(node) for node in watched}
        memory = {node.node_id: _restart_peak(node) for node in watched}
        for node in watched:
            longest_pass_of(node).take()
        yield seen
        printed, _ = child.communicate(timeout=2 * PATIENCE_S)  # twice that of its requests
    finally:
        child.kill()
        child.wait()
    report = json.loads(printed)
    seen.latencies_s = {int(node_id): found for node_id, found in report["latencies"].items()}
    for node_id, found in seen.latencies_s.items():
        note(f"ApiVersions at node {node_id}, p99.9", _percentile(found, 0.999), _USUAL_S)
    seen.done, seen.failures = report["done"], report["failures"]
    seen.longest_passes = {node.node_id: longest_pass_of(node).take() for node in watched}
    seen.unsettled = _settle(watched, before)
    seen.growth_mib = {
        node.node_id: memory_mib(node.pid, "VmHWM") - memory[node.node_id] for node in watched
    }
    seen.epochs = (max(map(_epoch, before.values())), max(_epoch(status(node)) for node in watched))


def _restart_peak(node: Node) -> float:
    """Reset the kernel's peak of the node's resident memory. Return the memory that is resident
    now, MiB.
    """
    Path(f"/proc/{node.pid}/clear_refs").write_text("5")
    return memory_mib(node.pid)


def _settle(nodes: Sequence[Node], before: Mapping[int, Mapping[str, Any]]) -> list[str]:
    def differences() -> list[str]:
        return [text for node in nodes for text in _differences(node, before[node.node_id])]

    found: list[str] = []
    try:
        until(differences, "the state before the attack", lambda texts: not texts)
    except AssertionError as error:
        found.append(str(error))
    for node in nodes:
        try:
            check_groups(node.broker_address)
        except Exception as error:
            found.append(f"afterwards at node {node.node_id}: {type(error).__name__}: {error}")
    return found


def _differences(node: Node, before: Mapping[str, Any]) -> list[str]:
    old, now = before["connections"], status(node)["connections"]
    found = [
        f"node {node.node_id} has {now['open'][name]} connections at {name}, {count} before"
        for name, count in old["open"].items()
        if now["open"][name] > count + (_PEER_CONNECTIONS if name == "CONTROLLER" else 0)
    ]
    for key, noise in (("parked_requests", _PARKED_NOISE), ("buffered_bytes", _BUFFERED_NOISE)):
        if now[key] > old[key] + noise:
            found.append(f"node {node.node_id}: {key} is {now[key]}, {old[key]} before")
    for key in ("internal_errors",):
        if now[key] > old[key]:
            found.append(f"node {node.node_id} had {now[key] - old[key]} internal errors")
    return found


def _epoch(document: Mapping[str, Any]) -> int:
    return int(document["quorum"]["epoch"])


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0
