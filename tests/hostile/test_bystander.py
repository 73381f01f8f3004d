"""The bystander reports nothing about a quiet quorum, and each kind of disturbance."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.header import encode_request_header
from tests.gateway.controller.cluster import made
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, bystander, status
from tests.hostile.counted_server import UNCUT
from tests.waiting import until
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.process import Process
from tools.wire_client import WireClient

counted = pytest.mark.skipif("KWIRE_SPEED" in os.environ, reason="servers do not count then")


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum({"max.connections": "60"}) as cluster:
        yield cluster


def stopped(process: Process) -> bool:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def open_connections(node: Node, count: int) -> list[socket.socket]:
    """Connections that the node has accepted, and that send nothing."""
    opened = [socket.create_connection(("127.0.0.1", node.broker_port)) for _ in range(count)]
    until(
        lambda: status(node)["connections"]["open"]["BROKER"] >= count, "connections are accepted"
    )
    return opened


def used_connection(port: int) -> socket.socket:
    """A connection that has sent a valid request: newcomers do not displace it."""
    one = socket.create_connection(("127.0.0.1", port))
    data = encode_request_header(18, 0, 1, "attacker")
    one.sendall(struct.pack(">i", len(data)) + data)
    with contextlib.suppress(OSError):  # the server refuses those beyond the limit
        one.recv(4)
    return one


def test_quiet_quorum_is_undisturbed(cluster: OwnCluster) -> None:
    with bystander(cluster) as seen:
        pass
    seen.assert_undisturbed()
    assert set(seen.latencies_s) == {1, 2, 3}
    assert all(seen.latencies_s.values())
    assert set(seen.done) == {"ApiVersions", "connect", "group"}


@counted
def test_work_of_each_server_is_counted(cluster: OwnCluster) -> None:
    with bystander(cluster) as seen:
        pass
    assert set(seen.longest_passes) == {1, 2, 3}
    assert all(seen.longest_passes.values())


def test_suspended_process_is_no_disturbance(cluster: OwnCluster) -> None:
    """A machine may suspend a process at any time."""
    process = cluster.nodes[0].running_process()
    with bystander(cluster) as seen:
        process.pause()
        until(lambda: stopped(process), "the process is suspended")
        process.resume()
    seen.assert_undisturbed(elections=True)


@counted
def test_long_request_to_a_server_that_cuts_nothing_into_slices_is_reported() -> None:
    topics = made(
        "CreateTopicsRequest",
        topics=[
            {"name": f"t{number}", "num_partitions": 1, "replication_factor": 1}
            for number in range(2_000)
        ],
        timeout_ms=60_000,
        validate_only=True,
    )
    with (
        attacked_quorum(nodes=1, before=UNCUT) as uncut,
        bystander(uncut) as seen,
        WireClient(uncut.wait_for_leader().broker_address) as client,
        contextlib.suppress(OSError, EOFError),  # the answer may come too late
    ):
        client.call(topics, 7)
    assert any("units of work in one pass" in text for text in seen.disturbances()), (
        seen.longest_passes
    )


def test_attack_that_leaves_connections_open_fails(
    cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.waiting.PATIENCE_S", 2)
    idle: list[socket.socket] = []

    def attack() -> None:
        idle.extend(open_connections(cluster.nodes[0], 20))

    with pytest.raises(AssertionError, match="connections at BROKER"):
        assert_others_undisturbed(cluster, attack)
    assert len(idle) == 20
    for one in idle:
        one.close()


def test_leader_suspended_for_long_is_reported_as_an_election(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    others = [node for node in cluster.nodes if node is not leader]
    with bystander(cluster, others) as seen:
        epoch = status(others[0])["quorum"]["epoch"]
        leader.running_process().pause()
        until(lambda: status(others[0])["quorum"]["epoch"] > epoch, "an election")
        leader.running_process().resume()
        cluster.wait_for_leader()
    assert any("an election" in text for text in seen.disturbances()), seen.disturbances()
    seen.assert_undisturbed(elections=True)


def test_connections_beyond_the_limit_are_reported_as_refused(cluster: OwnCluster) -> None:
    node = cluster.nodes[0]
    with bystander(cluster, [node]) as seen:
        idle = [used_connection(node.broker_port) for _ in range(60)]
        refused = status(node)["connections"]["refused"]
        until(lambda: status(node)["connections"]["refused"] > refused + 1, "others are refused")
        for one in idle:
            one.close()
    assert any(text.startswith("connect at node") for text in seen.disturbances()), (
        seen.disturbances()
    )
    seen.assert_undisturbed(new_connections=False)


def test_connections_that_stay_are_reported_as_unsettled(
    cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.waiting.PATIENCE_S", 2)
    node = cluster.nodes[0]
    idle: list[socket.socket] = []
    with bystander(cluster, [node]) as seen:
        idle += open_connections(node, 20)
    for one in idle:
        one.close()
    assert any("connections at BROKER" in text for text in seen.disturbances()), seen.disturbances()


def test_cluster_is_undisturbed_after_the_attacks(cluster: OwnCluster) -> None:
    with bystander(cluster) as seen:
        pass
    seen.assert_undisturbed()
