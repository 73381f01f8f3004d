"""A secured quorum of ours: stock clients of four kinds come in by TLS, PLAIN and SCRAM, and may do
what ACLs say.

The nodes speak SASL_SSL among themselves. Whichever node is asked, who asks is authorized, not who
passes it on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tests.interop.clients import need_clients
from tools import java, java_tools
from tools.java import JavaError
from tools.kafka_files import Node
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    Authority,
    key_store_properties,
    properties_text,
    sasl_client_properties,
    sasl_server_properties,
    trust_store_properties,
)
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.process import lasting_ports

pytestmark = pytest.mark.interop

ACLS = "org.apache.kafka.tools.AclCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG = "__cluster_metadata"
PROTOCOLS = {"SASL": "SASL_PLAINTEXT", "MUTUAL": "SSL", "BOTH": "SASL_SSL"}
ALICE, ALICE_PASSWORD = "alice", "alice-secret"


@dataclass
class Secured:
    """Three nodes, where their listeners are, and the stores."""

    cluster: OwnCluster
    ports: Mapping[int, Mapping[str, int]]
    directory: Path
    authority: Authority

    def address(self, listener: str, node: Node | None = None) -> str:
        ids = [node.node_id] if node is not None else list(self.ports)
        return ",".join(f"127.0.0.1:{self.ports[id][listener]}" for id in ids)

    def properties(
        self,
        listener: str,
        mechanism: str = "PLAIN",
        user: str = ADMIN,
        password: str = ADMIN_PASSWORD,
    ) -> Path:
        """A file for Kafka's tools."""
        values = {"security.protocol": PROTOCOLS[listener]} | trust_store_properties(
            self.directory / "trust.pem", self.authority
        )
        if listener == "MUTUAL":
            values |= key_store_properties(
                self.directory / "friend.pem", self.authority.issue("friend")
            )
        else:
            values |= sasl_client_properties(mechanism, user, password)
        file = self.directory / f"{listener}-{mechanism}-{user}.properties"
        file.write_text(properties_text(values))
        return file

    def tool(self, main: str, *arguments: str, node: Node | None = None, **who: str) -> str:
        """One of Kafka's own tools over SASL_SSL, as ADMIN or ``who``."""
        where = [
            "--bootstrap-server",
            self.address("BOTH", node),
            "--command-config",
            str(self.properties("BOTH", **who)),
        ]
        return java_tools.run_tool(main, [*where, *arguments])

    def librdkafka(
        self,
        listener: str,
        node: Node | None = None,
        mechanism: str = "PLAIN",
        user: str = ADMIN,
        password: str = ADMIN_PASSWORD,
    ) -> dict[str, Any]:
        conf = {
            "bootstrap.servers": self.address(listener, node),
            "security.protocol": PROTOCOLS[listener],
        }
        conf["ssl.ca.location"] = str(self.directory / "ca.pem")
        if listener == "MUTUAL":
            friend = self.authority.issue("friend")
            for name, text in (
                ("friend.crt", friend.chain_pem()),
                ("friend.key", friend.key_pem()),
            ):
                (self.directory / name).write_text(text)
            own = {"certificate": "friend.crt", "key": "friend.key"}
            return conf | {
                f"ssl.{what}.location": str(self.directory / name) for what, name in own.items()
            }
        return conf | {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    need_clients()
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    ports = {
        id: dict(zip(PROTOCOLS, lasting_ports(len(PROTOCOLS)), strict=True)) for id in (1, 2, 3)
    }
    properties = {
        **QUICK,
        **key_store_properties(directory / "node.pem", authority.issue("node")),
        **trust_store_properties(directory / "ca.pem", authority),
        "listener.name.mutual.ssl.client.auth": "required",
        **{
            key: value
            for name in ("sasl", "both", "controller")
            for key, value in sasl_server_properties(name).items()
        },
        "sasl.mechanism.controller.protocol": "PLAIN",
        "delegation.token.secret.key": "for tests",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN};User:CN=friend",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}"
            for name, protocol in {
                "BROKER": "PLAINTEXT",
                "CONTROLLER": "SASL_SSL",
                **PROTOCOLS,
            }.items()
        ),
    }

    def listeners(node: Node) -> dict[str, str]:
        more = [f"{name}://127.0.0.1:{port}" for name, port in ports[node.node_id].items()]
        first = [f"BROKER://{node.broker_address}", f"CONTROLLER://{node.controller_address}"]
        return {"listeners": ",".join((*first, *more))}

    with own_quorum(3, properties=properties, node_properties=listeners) as cluster:
        place = Secured(cluster, ports, directory, authority)
        create(place, "first")
        for mechanism in (
            "SCRAM-SHA-256",
            "SCRAM-SHA-512",
        ):  # Kafka takes one of a user in a request
            scram = f"{mechanism}=[iterations=4096,password={ALICE_PASSWORD}]"
            place.tool(
                CONFIGS,
                "--alter",
                "--entity-type",
                "users",
                "--entity-name",
                ALICE,
                "--add-config",
                scram,
            )
        allow = ["--add", "--allow-principal", f"User:{ALICE}", "--force"]
        place.tool(
            ACLS,
            *allow,
            "--operation",
            "Read",
            "--topic",
            LOG,
            "--group",
            "alice-",
            "--resource-pattern-type",
            "prefixed",
        )
        yield place


def create(place: Secured, topic: str, *, node: Node | None = None, **who: str) -> str | None:
    """Have a topic created by librdkafka; the name of the error, None if there is none."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient(place.librdkafka("BOTH", node, **who))
    (future,) = admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=20).values()
    try:
        future.result(30)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def topics(place: Secured, node: Node, **who: str) -> set[str]:
    from confluent_kafka.admin import AdminClient

    return set(AdminClient(place.librdkafka("BOTH", node, **who)).list_topics(timeout=20).topics)


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
            bootstrap_servers=secured.address("BOTH"), security_protocol="SASL_SSL", sasl_mechanism=mechanism,
            sasl_plain_username=ALICE, sasl_plain_password=ALICE_PASSWORD, group_id=None,
            ssl_context=create_ssl_context(cafile=str(secured.directory / "ca.pem")),
        )  # fmt: skip
        await consumer.start()
        try:
            consumer.assign([TopicPartition(LOG, 0)])
            consumer.seek(TopicPartition(LOG, 0), 0)
            return await asyncio.wait_for(consumer.getone(), 20)
        finally:
            await consumer.stop()

    assert asyncio.run(main()).value


@pytest.mark.parametrize("way", [WAYS[1], WAYS[3], WAYS[4]], ids=lambda way: f"{way[0]}-{way[1]}")
def test_the_java_consumer_reads_the_log_in_a_group(
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


def test_every_node_authorizes_who_asks_and_not_who_passes_it_on(secured: Secured) -> None:
    stranger: dict[str, Any] = {"user": OUTSIDER, "password": OUTSIDER_PASSWORD}
    for number, node in enumerate(secured.cluster.nodes):
        assert (
            create(secured, f"by-stranger-{number}", node=node, **stranger)
            == "TOPIC_AUTHORIZATION_FAILED"
        )
        assert create(secured, f"by-admin-{number}", node=node) is None
        assert topics(secured, node, **stranger) == set()
    for node in secured.cluster.nodes:
        made = topics(secured, node)
        assert {f"by-admin-{number}" for number in range(3)} <= made
        assert not any(name.startswith("by-stranger") for name in made)


def test_acls_that_java_adds_and_removes_hold_on_every_node(secured: Secured) -> None:
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
            lambda number=number, node=node: (
                create(secured, f"own-{number}", node=node, **alice) is None
            )
        )
        assert (
            create(secured, f"others-{number}", node=node, **alice) == "TOPIC_AUTHORIZATION_FAILED"
        )
    assert "User:alice" in secured.tool(ACLS, "--list")
    secured.tool(ACLS, "--remove", "--force", *who)
    until(lambda: create(secured, "own-9", **alice) == "TOPIC_AUTHORIZATION_FAILED")


def test_kafkas_tools_say_who_was_refused(secured: Secured) -> None:
    stranger: dict[str, Any] = {"user": OUTSIDER, "password": OUTSIDER_PASSWORD}
    with pytest.raises(
        JavaError, match=r"ClusterAuthorizationException|Cluster authorization failed"
    ):
        secured.tool(ACLS, "--list", **stranger)
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(java.TOPICS, "--list", user=OUTSIDER, password="wrong")
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(java.TOPICS, "--list", mechanism="SCRAM-SHA-256", user=ALICE, password="wrong")


def test_a_delegation_token_stands_for_its_owner(secured: Secured) -> None:
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
        )
    )
    with pytest.raises(JavaError, match="DelegationToken"):  # who came by a token gets no other
        java_tools.run_tool(TOKENS, [*asked, "--create", "--max-life-time-period", "-1"])
    with pytest.raises(JavaError, match="Authentication failed"):
        secured.tool(
            java.TOPICS, "--list", mechanism="SCRAM-SHA-512", user=token_id, password=password
        )


def test_nobody_without_a_name_may_do_anything(secured: Secured) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": secured.cluster.bootstrap})
    assert admin.list_topics(timeout=20).topics == {}


def test_the_nodes_elect_another_leader_over_sasl_and_tls(secured: Secured) -> None:
    """The last test: it takes a node away."""
    said = secured.tool(java.METADATA_QUORUM, "describe", "--status")
    leader_id = int(
        next(line.split(":")[1] for line in said.splitlines() if line.startswith("LeaderId"))
    )
    leader = next(node for node in secured.cluster.nodes if node.node_id == leader_id)
    secured.cluster.kill_node(leader)
    rest = [node for node in secured.cluster.nodes if node is not leader]
    until(lambda: create(secured, "after-it", node=rest[0]) in (None, "TOPIC_ALREADY_EXISTS"))
    until(lambda: "after-it" in topics(secured, rest[1]))


def until(condition: Any, within_s: float = 30) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.2)
