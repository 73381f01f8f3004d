"""A secured kwire quorum: four kinds of stock clients connect with TLS, PLAIN and SCRAM, and
are authorized by ACLs.

The nodes use SASL_SSL among themselves. A forwarded request is authorized for the client, not for
the node that forwards it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.interop.clients import need_clients
from tests.interop.secured_quorum import (
    ACLS,
    ALICE,
    ALICE_PASSWORD,
    LOG,
    PROTOCOLS,
    TOKENS,
    Secured,
    create,
    secured_quorum,
    topics,
)
from tests.waiting import PATIENCE_S, until
from tools import java, java_tools
from tools.java import JavaError
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
)

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    need_clients()
    with secured_quorum(tmp_path_factory.mktemp("stores")) as place:
        yield place


WAYS = [
    ("SASL", "PLAIN", ADMIN, ADMIN_PASSWORD),
    ("SASL", "SCRAM-SHA-256", ALICE, ALICE_PASSWORD),
    ("BOTH", "PLAIN", ADMIN, ADMIN_PASSWORD),
    ("BOTH", "SCRAM-SHA-512", ALICE, ALICE_PASSWORD),
    ("MUTUAL", "PLAIN", ADMIN, ADMIN_PASSWORD),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def test_librdkafka_reads_the_log(secured: Secured, way: tuple[str, str, str, str]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    listener, mechanism, user, password = way
    conf = secured.librdkafka(listener, None, mechanism, user, password)
    consumer = Consumer(
        conf
        | {"group.id": "alice-rd", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(LOG, 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None and message.error() is None and message.value()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def test_kafka_python_reads_the_log(secured: Secured, way: tuple[str, str, str, str]) -> None:
    from kafka import KafkaConsumer, TopicPartition

    listener, mechanism, user, password = way
    secured.librdkafka("MUTUAL")  # writes the friend's certificate
    own = {
        "ssl_certfile": str(secured.directory / "friend.crt"),
        "ssl_keyfile": str(secured.directory / "friend.key"),
    }
    sasl = {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    tls = {"ssl_cafile": str(secured.directory / "ca.pem")} | (own if listener == "MUTUAL" else {})
    options = (tls if "SSL" in PROTOCOLS[listener] else {}) | (
        sasl if "SASL" in PROTOCOLS[listener] else {}
    )
    where = secured.address(listener).split(",")
    consumer = KafkaConsumer(
        bootstrap_servers=where, security_protocol=PROTOCOLS[listener], group_id=None, **options
    )
    consumer.assign([TopicPartition(LOG, 0)])
    consumer.seek(TopicPartition(LOG, 0), 0)
    found = consumer.poll(timeout_ms=20_000)
    consumer.close()
    assert any(record.value for records in found.values() for record in records)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_aiokafka_reads_the_log(secured: Secured, mechanism: str) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.helpers import create_ssl_context

    async def main() -> Any:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=secured.address("BOTH"),
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_plain_username=ALICE,
            sasl_plain_password=ALICE_PASSWORD,
            group_id=None,
            ssl_context=create_ssl_context(cafile=str(secured.directory / "ca.pem")),
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(LOG, 0)])
            consumer.seek(TopicPartition(LOG, 0), 0)
            return await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        finally:
            await consumer.stop()

    assert asyncio.run(main()).value


@pytest.mark.parametrize("way", [WAYS[1], WAYS[3], WAYS[4]], ids=lambda way: f"{way[0]}-{way[1]}")
def test_java_consumer_reads_the_log_in_a_group(
    secured: Secured, way: tuple[str, str, str, str]
) -> None:
    listener, mechanism, user, password = way
    file = secured.properties(listener, mechanism, user, password)
    asked = [
        "--bootstrap-server",
        secured.address(listener),
        "--command-config",
        str(file),
        "--topic",
        LOG,
    ]
    said = java_tools.run_tool(
        java.CONSOLE_CONSUMER,
        [
            *asked,
            "--group",
            f"alice-{listener}-{mechanism}",
            "--from-beginning",
            "--max-messages",
            "5",
        ],
    )
    assert said


def test_forwarded_request_is_authorized_for_the_client(secured: Secured) -> None:
    outsider: dict[str, Any] = {"user": OUTSIDER, "password": OUTSIDER_PASSWORD}
    for number, node in enumerate(secured.cluster.nodes):
        assert (
            create(secured, f"by-outsider-{number}", node=node, **outsider)
            == "TOPIC_AUTHORIZATION_FAILED"
        )
        assert create(secured, f"by-admin-{number}", node=node) is None
        assert topics(secured, node, **outsider) == set()
    for node in secured.cluster.nodes:
        made = topics(secured, node)
        assert {f"by-admin-{number}" for number in range(3)} <= made
        assert not any(name.startswith("by-outsider") for name in made)


def test_acls_that_kafkas_tool_changes_hold_on_every_node(secured: Secured) -> None:
    alice: dict[str, Any] = {
        "mechanism": "SCRAM-SHA-512",
        "user": ALICE,
        "password": ALICE_PASSWORD,
    }
    who = [
        "--allow-principal",
        f"User:{ALICE}",
        "--operation",
        "Create",
        "--topic",
        "own-",
        "--resource-pattern-type",
        "prefixed",
    ]
    assert create(secured, "own-1", **alice) == "TOPIC_AUTHORIZATION_FAILED"
    secured.tool(ACLS, "--add", "--force", *who)
    for number, node in enumerate(secured.cluster.nodes):
        until(
            partial(create, secured, f"own-{number}", node=node, **alice),
            "the ACL holds",
            lambda error: error is None,
        )
        assert (
            create(secured, f"others-{number}", node=node, **alice) == "TOPIC_AUTHORIZATION_FAILED"
        )
    assert "User:alice" in secured.tool(ACLS, "--list")
    secured.tool(ACLS, "--remove", "--force", *who)
    until(
        lambda: create(secured, "own-9", **alice) == "TOPIC_AUTHORIZATION_FAILED", "the ACL is gone"
    )


def test_kafkas_tools_report_the_refusal(secured: Secured) -> None:
    outsider: dict[str, Any] = {"user": OUTSIDER, "password": OUTSIDER_PASSWORD}
    with pytest.raises(
        JavaError, match=r"ClusterAuthorizationException|Cluster authorization failed"
    ):
        secured.tool(ACLS, "--list", **outsider)
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(java.TOPICS, "--list", user=OUTSIDER, password="wrong")
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(java.TOPICS, "--list", mechanism="SCRAM-SHA-256", user=ALICE, password="wrong")


def test_delegation_token_authenticates_its_owner(secured: Secured) -> None:
    alice: dict[str, Any] = {
        "mechanism": "SCRAM-SHA-256",
        "user": ALICE,
        "password": ALICE_PASSWORD,
    }
    said = secured.tool(TOKENS, "--create", "--max-life-time-period", "-1", **alice)
    line = next(line for line in said.splitlines() if "User:alice" in line)
    token_id, password = line.split()[:2]
    file = secured.properties("BOTH", "SCRAM-SHA-512", token_id, password)
    file.write_text(file.read_text().replace(";", ' tokenauth="true";'))
    asked = ["--bootstrap-server", secured.address("BOTH"), "--command-config", str(file)]
    reading = ["--topic", LOG, "--group", "alice-token", "--from-beginning", "--max-messages", "5"]
    until(
        lambda: bool(
            java_tools.run_tool(java.CONSOLE_CONSUMER, [*asked, *reading, "--timeout-ms", "10000"])
        ),
        "the token is at the node",
    )
    with pytest.raises(JavaError, match="DelegationToken"):  # who came by a token gets no other
        java_tools.run_tool(TOKENS, [*asked, "--create", "--max-life-time-period", "-1"])
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(
            java.TOPICS, "--list", mechanism="SCRAM-SHA-512", user=token_id, password=password
        )


def test_anonymous_client_is_refused(secured: Secured) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    assert admin.list_topics(timeout=PATIENCE_S).topics == {}


def test_nodes_elect_another_leader_over_sasl_ssl(secured: Secured) -> None:
    """The last test: it takes a node away."""
    said = secured.tool(java.METADATA_QUORUM, "describe", "--status")
    leader_id = int(
        next(line.split(":")[1] for line in said.splitlines() if line.startswith("LeaderId"))
    )
    leader = next(node for node in secured.cluster.nodes if node.node_id == leader_id)
    secured.cluster.kill_node(leader)
    rest = [node for node in secured.cluster.nodes if node is not leader]
    until(
        lambda: create(secured, "after-it", node=rest[0]) in (None, "TOPIC_ALREADY_EXISTS"),
        "a topic after it",
    )
    until(lambda: "after-it" in topics(secured, rest[1]), "the topic at the other node")
