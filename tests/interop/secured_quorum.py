"""Starts a secured kwire quorum, and connects to it with librdkafka and Kafka's tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.security.standard_authorizer import STANDARD_AUTHORIZER
from tests.waiting import PATIENCE_S
from tools import java_tools
from tools.kafka_files import Node
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    Authority,
    key_store_properties,
    properties_text,
    sasl_client_properties,
    sasl_server_properties,
    trust_store_properties,
)
from tools.own_quorum import QUICK, OwnCluster, own_quorum
from tools.process import lasting_ports

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


@contextmanager
def secured_quorum(directory: Path) -> Iterator[Secured]:
    """Three nodes with SASL_SSL between them, a topic, and ALICE as a SCRAM user with one ACL.

    ``directory`` gets the key stores. ALICE may read the log in groups whose ids begin with
    ``alice-``.
    """
    # Clients with a context of ``ssl.create_default_context`` (aiokafka), from Python 3.13 on,
    # refuse certificates without the identifiers of RFC 5280.
    authority = Authority(identified=True)
    ports = {
        id: dict(zip(PROTOCOLS, lasting_ports(len(PROTOCOLS)), strict=True)) for id in (1, 2, 3)
    }

    def listeners(node: Node) -> dict[str, str]:
        more = [f"{name}://127.0.0.1:{port}" for name, port in ports[node.node_id].items()]
        first = [f"BROKER://{node.broker_address}", f"CONTROLLER://{node.controller_address}"]
        return {"listeners": ",".join((*first, *more))}

    properties = _properties(directory, authority)
    with own_quorum(3, properties=properties, node_properties=listeners) as cluster:
        place = Secured(cluster, ports, directory, authority)
        create(place, "first")
        _add_user(place)
        yield place


def _properties(directory: Path, authority: Authority) -> dict[str, str]:
    return {
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


def _add_user(place: Secured) -> None:
    # A request may have one mechanism of a user only, as in Kafka.
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
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


def create(place: Secured, topic: str, *, node: Node | None = None, **who: str) -> str | None:
    """Have a topic created by librdkafka; the name of the error, None if there is none."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient(place.librdkafka("BOTH", node, **who))
    (future,) = admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=PATIENCE_S).values()
    try:
        future.result(PATIENCE_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return None


def topics(place: Secured, node: Node, **who: str) -> set[str]:
    from confluent_kafka.admin import AdminClient

    return set(
        AdminClient(place.librdkafka("BOTH", node, **who)).list_topics(timeout=PATIENCE_S).topics
    )
