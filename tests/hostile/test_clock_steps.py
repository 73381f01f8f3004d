"""The wall clock of running nodes is set forward and back: of all of them at once, and of the
leader. The monotonic clock runs on, as on a machine whose clock is set.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from gateway.security.secret import Secret
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.gateway.controller.cluster import create, made
from tests.gateway.server.test_scram_listeners import TokenClient
from tests.hostile.broker_life import BrokerLife, broker_life
from tests.hostile.bystander import (
    assert_others_undisturbed,
    attacked_quorum,
    listener_port,
    status,
    wait_until_ready,
    with_listener,
)
from tests.hostile.failing_server import BEFORE
from tests.waiting import until
from tools.failing_server import step
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

HOUR, YEAR = 3_600, 365 * 24 * 3_600
#: The session of the broker, which each step exceeds by far, and the NoOpRecords that the leader
#: writes after a step, one each 0.5 s.
SESSION_MS, NO_OPS = 10_000, 5
STEPS = {
    "an hour forward": HOUR,
    "back to now": 0,
    "an hour back": -HOUR,
    "a year back": -YEAR,
    "forward to now": 0,
}
MECHANISM, GROUP, TOPIC = "SCRAM-SHA-512", "kept", "kept"
PROPERTIES = {
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "listener.name.sasl.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="secret";'
    ),
    "delegation.token.secret.key": "shared",
    "broker.session.timeout.ms": str(SESSION_MS),
}


class Token(NamedTuple):
    """The credential of a delegation token."""

    id: str
    password: Secret


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum(
        PROPERTIES, node_properties=with_listener("SASL"), before=BEFORE
    ) as cluster:
        assert answered(cluster, create({"name": TOPIC}), 7).topics[0].error_code == 0
        partition = {"partition_index": 0, "committed_offset": 7}
        commit = made(
            "OffsetCommitRequest",
            group_id=GROUP,
            topics=[{"name": "__cluster_metadata", "partitions": [partition]}],
        )
        for node in cluster.nodes:
            with WireClient(node.broker_address) as client:
                answer = client.call(commit, 7)
                assert answer.topics[0].partitions[0].error_code == 0
        yield cluster


@pytest.fixture(scope="module")
def broker(cluster: OwnCluster) -> Iterator[BrokerLife]:
    with broker_life(cluster) as life:
        yield life


@pytest.fixture(scope="module")
def token(cluster: OwnCluster) -> Token:
    with sasl(cluster.wait_for_leader(), "PLAIN") as client:
        assert client.call(SaslAuthenticateRequest(auth_bytes=b"\0eve\0secret"), 2).error_code == 0
        made_token = client.call(made("CreateDelegationTokenRequest", max_lifetime_ms=-1), 3)
    assert made_token.error_code == 0
    return Token(made_token.token_id, Secret(base64.b64encode(made_token.hmac).decode()))


def sasl(node: Node, mechanism: str) -> WireClient:
    client = WireClient(f"127.0.0.1:{listener_port(node, 'SASL')}")
    assert client.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    return client


def login_error(node: Node, token: Token) -> int:
    """Log in with the token; the error of the answer."""
    scram = TokenClient(MECHANISM, token.id, token.password, "nonce")
    with sasl(node, MECHANISM) as client:
        first = client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
        if first.error_code:
            return int(first.error_code)
        final = scram.respond(bytes(first.auth_bytes))
        assert final is not None
        return int(client.call(SaslAuthenticateRequest(auth_bytes=final), 2).error_code)


def answered(cluster: OwnCluster, request: Any, version: int) -> Any:
    with WireClient(cluster.wait_for_leader().broker_address) as client:
        return client.call(request, version)


names = (f"new-{number}" for number in itertools.count())


def assert_nothing_is_lost(cluster: OwnCluster) -> None:
    """The topic and the offsets from before the steps are there, and a topic can be created."""
    name = next(names)
    assert answered(cluster, create({"name": name}), 7).topics[0].error_code == 0
    for node in cluster.nodes:
        with WireClient(node.broker_address) as client:
            groups = [{"group_id": GROUP, "topics": None}]
            fetched = client.call(made("OffsetFetchRequest", groups=groups), 8).groups[0]
            assert fetched.topics[0].partitions[0].committed_offset == 7
            wait_for_topics(client, {TOPIC, name})


def wait_for_topics(client: WireClient, expected: set[str]) -> None:
    until(
        lambda: {
            topic.name for topic in client.call(made("MetadataRequest", topics=None), 9).topics
        },
        f"the node has {expected}",
        expected.issubset,
    )


def high_watermark(node: Node) -> int:
    return int(status(node)["partition"]["high_watermark"])


def set_clocks(cluster: OwnCluster, nodes: Sequence[Node], offset_s: int) -> None:
    """Set the clocks, and check that the leader continues to write NoOpRecords."""
    leader = cluster.wait_for_leader()
    for node in nodes:
        step(node, offset_s)
    enough = high_watermark(leader) + NO_OPS
    until(lambda: high_watermark(leader) >= enough, "an idle leader writes NoOpRecords")


@pytest.mark.parametrize(
    ("name", "which"),
    [*((name, "all") for name in STEPS), ("an hour forward", "leader"), ("a year back", "leader")],
)
def test_step_of_the_clock_disturbs_no_client_and_loses_nothing(
    cluster: OwnCluster, broker: BrokerLife, token: Token, name: str, which: str
) -> None:
    nodes = cluster.nodes if which == "all" else [cluster.wait_for_leader()]
    assert_others_undisturbed(cluster, lambda: set_clocks(cluster, nodes, STEPS[name]))
    assert_nothing_is_lost(cluster)
    assert [login_error(node, token) for node in cluster.nodes] == [0, 0, 0]
    assert not broker.errors and not any(broker.fenced)
    assert all(0 <= status(node)["uptime_s"] < HOUR for node in cluster.nodes)
    if which == "leader":
        step(nodes[0], 0)


def test_token_is_refused_while_the_clock_is_past_its_end(
    cluster: OwnCluster, broker: BrokerLife, token: Token
) -> None:
    leader = cluster.wait_for_leader()
    assert_others_undisturbed(cluster, lambda: set_clocks(cluster, [leader], YEAR))
    assert login_error(leader, token) == 58  # SASL_AUTHENTICATION_FAILED
    step(leader, 0)
    assert login_error(leader, token) == 0
    assert_nothing_is_lost(cluster)
    assert not broker.errors and not any(broker.fenced)


def test_node_whose_clock_is_a_year_back_starts_with_everything(cluster: OwnCluster) -> None:
    leader = cluster.wait_for_leader()
    node = next(node for node in cluster.nodes if node is not leader)
    cluster.stop_node(node)
    step(node, -YEAR)
    cluster.start_node(node)
    cluster.wait_for_node(node)
    wait_until_ready(node)
    assert_nothing_is_lost(cluster)
    step(node, 0)
