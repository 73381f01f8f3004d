"""Commands that read a server, against a secured quorum of kwire and against Kafka 4.3.1: every way
to log in, and the cause of each failure in words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.clients import need_clients, need_java
from tests.interop.secured_quorum import ALICE, ALICE_PASSWORD, LOG, TOKENS, Secured, secured_quorum
from tests.waiting import until
from tools.gateway_process import KWIRE
from tools.kafka import Cluster, Node, kafka
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
    scram_arguments,
    trust_store_properties,
)
from tools.process import lasting_ports

pytestmark = pytest.mark.interop

WAYS = [
    ("SASL", "SCRAM-SHA-256", ALICE, ALICE_PASSWORD),
    ("BOTH", "PLAIN", ADMIN, ADMIN_PASSWORD),
    ("BOTH", "SCRAM-SHA-512", ALICE, ALICE_PASSWORD),
    ("MUTUAL", "PLAIN", ADMIN, ADMIN_PASSWORD),
]
PROTOCOLS = {"TLS": "SSL", "SASL": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KWIRE, *arguments], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    need_clients()
    with secured_quorum(tmp_path_factory.mktemp("stores")) as place:
        yield place


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_commands_read_a_secured_quorum(secured: Secured, way: tuple[str, str, str, str]) -> None:
    listener, *who = way
    at = secured.address(listener).split(",")[0]
    config = ["--command-config", str(secured.properties(listener, *who))]
    # Followers have the ACLs and users a moment later.
    until(
        lambda: '"first"' in called("tail", "-b", at, "--until-end", *config).stdout,
        "the records of a topic",
    )
    assert '"first"' in called("state", "-b", at, "--path", "/topics", *config).stdout
    assert called("diff", at, f"{at}@5", *config).returncode == 1
    assert called("apis", "-b", at, *config).returncode == 0
    if who[1] == ADMIN:
        assert "__cluster_metadata.topics" in called("views", "-b", at, *config).stdout


def test_commands_read_with_a_delegation_token(secured: Secured) -> None:
    said = secured.tool(
        TOKENS,
        *("--create", "--max-life-time-period", "-1"),
        mechanism="SCRAM-SHA-256",
        user=ALICE,
        password=ALICE_PASSWORD,
    )
    token_id, password = next(one for one in said.splitlines() if "User:alice" in one).split()[:2]
    file = secured.properties("BOTH", "SCRAM-SHA-512", token_id, password)
    file.write_text(file.read_text().replace(";", ' tokenauth="true";'))
    reading = ["tail", "-b", secured.address("BOTH"), "--until-end", "--command-config", str(file)]
    until(lambda: '"first"' in called(*reading).stdout, "the token is at the node")


def test_missing_acl_is_named_with_the_command_that_adds_it(secured: Secured) -> None:
    file = secured.properties("BOTH", "PLAIN", OUTSIDER, OUTSIDER_PASSWORD)
    done = called("state", "-b", secured.address("BOTH"), "--command-config", str(file))
    assert done.returncode == 1
    assert f"User:{OUTSIDER} may not Describe topic {LOG}" in done.stderr
    assert f"--add --allow-principal User:{OUTSIDER} --operation Read --topic {LOG}" in done.stderr


@dataclass
class Place:
    """A Kafka broker with a listener for each protocol, and the stores of its clients."""

    cluster: Cluster
    ports: Mapping[str, int]
    directory: Path
    authority: Authority

    def failure(self, listener: str, protocol: str, **keys: str) -> str:
        """Standard error of ``kwire tail`` with these client properties, which must fail."""
        values = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            values |= trust_store_properties(self.directory / "trust.pem", self.authority)
        if protocol.startswith("SASL"):
            values |= sasl_client_properties("PLAIN", ADMIN, ADMIN_PASSWORD)
        file = self.directory / "client.properties"
        file.write_text(properties_text(values | keys))
        at = f"127.0.0.1:{self.ports[listener]}"
        done = called("tail", "-b", at, "--until-end", "--command-config", str(file))
        assert done.returncode == 1 and at in done.stderr
        return done.stderr


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_java()
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    ports = dict(zip(PROTOCOLS, lasting_ports(len(PROTOCOLS)), strict=True))
    named = ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items())
    properties = {
        **key_store_properties(directory / "node.pem", authority.issue("node")),
        **trust_store_properties(directory / "ca.pem", authority),
        "listener.security.protocol.map": f"CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT,{named}",
        **sasl_server_properties("sasl"),
        **sasl_server_properties("both"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }

    def listeners(node: Node) -> dict[str, str]:
        more = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
        first, second = f"BROKER://{node.broker_address}", f"CONTROLLER://{node.controller_address}"
        return {
            "listeners": ",".join((first, second, *more)),
            "advertised.listeners": ",".join((first, *more)),
        }

    with kafka(
        properties=properties, node_properties=listeners, format_arguments=scram_arguments()
    ) as cluster:
        yield Place(cluster, ports, directory, authority)


def test_broker_of_kafka_and_its_controller_say_where_to_read(broker: Place) -> None:
    controllers, address = broker.cluster.controllers, broker.cluster.bootstrap
    start = f"kwire serve --bootstrap-controller {controllers}"
    for command in ("tail", "state"):
        done = called(command, "-b", address)
        assert (done.returncode, start in done.stderr) == (1, True), done.stderr
        assert "a Kafka broker does not serve its metadata log" in done.stderr
        done = called(command, "-b", controllers)
        assert (done.returncode, start in done.stderr) == (1, True), done.stderr
        assert "this is a controller" in done.stderr
    assert called("diff", address, controllers).returncode == 2


#: Listener, protocol of the client, and words of the failure.
FAILURES = [
    ("TLS", "PLAINTEXT", "this listener speaks TLS;", "set security.protocol=SSL"),
    ("BOTH", "PLAINTEXT", "speaks TLS and wants SASL;", "set security.protocol=SASL_SSL"),
    ("SASL", "PLAINTEXT", "no TLS and wants SASL;", "set security.protocol=SASL_PLAINTEXT"),
    ("SASL", "SSL", "no TLS and wants SASL;", "set security.protocol=SASL_PLAINTEXT"),
    ("BOTH", "SSL", "speaks TLS and wants SASL;", "sasl.mechanism (it offers"),
    ("TLS", "SASL_PLAINTEXT", "this listener speaks TLS;", "set security.protocol=SSL"),
    ("TLS", "SSL", "has no topic __cluster_metadata", "kwire serve --bootstrap-controller"),
    ("BOTH", "SASL_SSL", "has no topic __cluster_metadata", "kwire serve --bootstrap-controller"),
]


@pytest.mark.parametrize(("listener", "protocol", "cause", "remedy"), FAILURES)
def test_protocol_of_a_listener_of_kafka_is_found_and_named(
    broker: Place, listener: str, protocol: str, cause: str, remedy: str
) -> None:
    said = broker.failure(listener, protocol)
    assert cause in said and remedy in said


def test_refused_password_and_certificate_of_kafka_are_named(broker: Place) -> None:
    wrong = sasl_client_properties("SCRAM-SHA-256", ADMIN, "wrong")
    assert "check username and password" in broker.failure("SASL", "SASL_PLAINTEXT", **wrong)
    other = trust_store_properties(broker.directory / "other.pem", Authority("Other"))
    said = broker.failure("TLS", "SSL", **other)
    assert "its certificate was refused" in said and "ssl.truststore.location" in said
    user = sasl_client_properties("SCRAM-SHA-512", OUTSIDER, OUTSIDER_PASSWORD)
    assert f"User:{OUTSIDER} may not Describe topic" in broker.failure("BOTH", "SASL_SSL", **user)
