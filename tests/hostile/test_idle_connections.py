"""Idle connections fill a node's listener, while clients and the quorum's other nodes connect."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from tests.hostile.bystander import attacked_quorum, bystander, status, wait_until_ready
from tests.waiting import PATIENCE_S, until
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

LIMIT = 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum(
        {"max.connections": str(LIMIT), "first.request.timeout.ms": "10000"}
    ) as cluster:
        yield cluster


@contextlib.contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)
        ]


@pytest.mark.parametrize("listener", ["client", "controller"])
def test_voter_that_restarts_while_idle_connections_fill_the_leader_joins_again(
    cluster: OwnCluster, listener: str
) -> None:
    leader = cluster.wait_for_leader()
    restarted, other = (node for node in cluster.nodes if node is not leader)
    port = leader.broker_port if listener == "client" else leader.controller_port
    # The idle connections are there before the bystander: while they come, they displace others
    # that have not sent a request yet.
    with idle_connections(port, 3 * LIMIT), bystander(cluster, [leader, other]) as seen:
        cluster.kill_node(restarted)
        cluster.start_node(restarted)
        cluster.wait_for_node(restarted)
        wait_until_ready(restarted)
        until(
            lambda: status(restarted)["quorum"]["last_answer_s_ago"] is not None,
            "the leader answers the restarted voter",
        )
        assert status(restarted)["quorum"]["leader_id"] == leader.node_id
        assert status(leader)["connections"]["refused"] == 0
    seen.assert_undisturbed()


def test_idle_connections_are_closed_after_the_first_request_timeout(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    with bystander(cluster, [leader]) as seen, idle_connections(leader.broker_port, 20) as idle:
        for one in idle:
            one.settimeout(PATIENCE_S)
            assert one.recv(1) == b""
        with WireClient(leader.broker_address):
            pass
    seen.assert_undisturbed()
