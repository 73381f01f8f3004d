"""The bystander reports nothing about a quiet quorum, and each kind of disturbance."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from kwire.header import encode_request_header
from tests.hostile.bystander import assert_others_undisturbed, attacked_quorum, bystander
from tools.own_quorum import OwnCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum({"max.connections": "60"}) as cluster:
        yield cluster


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
        time.sleep(1)
    seen.assert_undisturbed()
    assert set(seen.latencies_s) == {1, 2, 3}
    assert min(map(len, seen.latencies_s.values())) > 10
    assert seen.done["group"] > 3


def test_suspended_process_is_reported_as_latency(cluster: OwnCluster) -> None:
    node = cluster.nodes[0]
    with bystander(cluster) as seen:
        node.running_process().pause()
        time.sleep(0.5)
        node.running_process().resume()
    assert any("ApiVersions took" in text for text in seen.disturbances()), seen.disturbances()
    seen.assert_undisturbed(latency_ms=2000)


def test_attack_that_holds_a_server_in_each_round_fails(cluster: OwnCluster) -> None:
    process = cluster.nodes[0].running_process()
    rounds = 0

    def attack() -> None:
        nonlocal rounds
        rounds += 1
        process.pause()
        time.sleep(0.3)
        process.resume()

    with pytest.raises(AssertionError, match="ApiVersions took"):
        assert_others_undisturbed(cluster, attack)
    assert rounds == 3


def test_attack_that_harms_otherwise_fails_in_its_first_round(
    cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.hostile.bystander._SETTLE_S", 0.5)
    idle: list[socket.socket] = []

    def attack() -> None:
        port = cluster.nodes[0].broker_port
        idle.extend(socket.create_connection(("127.0.0.1", port)) for _ in range(20))
        time.sleep(0.3)

    with pytest.raises(AssertionError, match="connections at BROKER"):
        assert_others_undisturbed(cluster, attack)
    assert len(idle) == 20
    for one in idle:
        one.close()


def test_leader_suspended_for_long_is_reported_as_an_election(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    others = [node for node in cluster.nodes if node is not leader]
    with bystander(cluster, others) as seen:
        leader.running_process().pause()
        time.sleep(4.5)
        leader.running_process().resume()
        cluster.wait_for_leader()
    assert any("an election" in text for text in seen.disturbances()), seen.disturbances()
    seen.assert_undisturbed(elections=True)


def test_connections_beyond_the_limit_are_reported_as_refused(cluster: OwnCluster) -> None:
    node = cluster.nodes[0]
    with bystander(cluster, [node]) as seen:
        idle = [used_connection(node.broker_port) for _ in range(60)]
        time.sleep(0.5)
        for one in idle:
            one.close()
    assert any(text.startswith("connect at node") for text in seen.disturbances()), (
        seen.disturbances()
    )
    seen.assert_undisturbed(new_connections=False)


def test_connections_that_stay_are_reported_as_unsettled(
    cluster: OwnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.hostile.bystander._SETTLE_S", 0.5)
    node = cluster.nodes[0]
    idle: list[socket.socket] = []
    with bystander(cluster, [node]) as seen:
        idle += [socket.create_connection(("127.0.0.1", node.broker_port)) for _ in range(20)]
        time.sleep(0.3)
    for one in idle:
        one.close()
    assert any("connections at BROKER" in text for text in seen.disturbances()), seen.disturbances()


def test_cluster_is_undisturbed_after_the_attacks(cluster: OwnCluster) -> None:
    with bystander(cluster) as seen:
        threading.Event().wait(0.3)
    seen.assert_undisturbed()
