"""The gateway's connection to a Kafka 4.3.1 controller: every security protocol and mechanism,
and the sentence of each refusal.

One controller has a listener for each protocol, and Kafka's own authorizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from gateway.base.address import Address
from gateway.security.client_properties import load_client_properties
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import (
    AuthenticationFailed,
    ConnectionClosed,
    TlsFailed,
    UpstreamError,
)
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID
from tests.interop.clients import need_java
from tools.kafka import Cluster, Node, kafka
from tools.kafka_security import (
    ADMIN,
    ADMIN_PASSWORD,
    OUTSIDER,
    OUTSIDER_PASSWORD,
    PLAIN_MODULE,
    STORE_PASSWORD,
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

FETCH = 1
DESCRIBE_CLUSTER = 60
REAUTHENTICATE_MS = 1500
#: As it stands in a JAAS configuration: quotes, escapes, comments and separators, other alphabets.
ODD_PASSWORD = r'"a \"b\' \\ c=d;#! // /* é 日 😀 \t\101\7 \q"'
#: Listener to its security protocol.
LISTENERS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "ELSEWHERE": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}


@dataclass
class Place:
    """A secured controller, and the directory of its stores."""

    cluster: Cluster
    ports: Mapping[str, int]
    directory: Path
    authority: Authority

    def trust(self, authority: Authority | None = None) -> dict[str, str]:
        chosen = authority or self.authority
        return trust_store_properties(self.directory / f"ca-{id(chosen)}.pem", chosen)

    def identity(self, name: str, authority: Authority | None = None) -> dict[str, str]:
        return key_store_properties(
            self.directory / f"{name}.pem", (authority or self.authority).issue(name)
        )

    def file(self, *parts: Mapping[str, str]) -> Path:
        path = self.directory / "client.properties"
        path.write_text(
            properties_text({key: value for part in parts for key, value in part.items()})
        )
        return path

    async def connect(
        self, listener: str, *parts: Mapping[str, str], host: str = "127.0.0.1"
    ) -> Upstream:
        """Connect with a properties file of ``parts``; the protocol is the listener's unless
        they name another.
        """
        security = load_client_properties(
            self.file({"security.protocol": LISTENERS[listener]}, *parts)
        )
        return await Upstream.connect(
            Address(host, self.ports[listener]), security, client_id="kwire", timeout_s=15
        )

    def ask(self, listener: str, *parts: Mapping[str, str], host: str = "127.0.0.1") -> int:
        """The error code of a Fetch over such a connection."""

        async def run() -> int:
            upstream = await self.connect(listener, *parts, host=host)
            try:
                return await fetch(upstream)
            finally:
                await upstream.aclose()

        return trio.run(run)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    need_java()
    directory, authority = tmp_path_factory.mktemp("stores"), Authority()
    ports = dict(zip(LISTENERS, lasting_ports(len(LISTENERS)), strict=True))
    elsewhere = key_store_properties(
        directory / "elsewhere.pem", authority.issue("node", hosts=["elsewhere.example"])
    )
    properties = {
        **key_store_properties(directory / "node.pem", authority.issue("node")),
        **trust_store_properties(directory / "ca.pem", authority),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.elsewhere.ssl.keystore.type": "PEM",
        "listener.name.elsewhere.ssl.keystore.location": elsewhere["ssl.keystore.location"],
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:CN=friend;User:ANONYMOUS",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,"
        + ",".join(f"{one}:{LISTENERS[one]}" for one in LISTENERS),
        "controller.listener.names": ",".join(("CONTROLLER", *LISTENERS)),
        **sasl_server_properties("sasl"),
        **with_odd_user("listener.name.sasl.plain.sasl.jaas.config"),
        **sasl_server_properties("sasltls"),
        **sasl_server_properties("brief"),
        "listener.name.brief.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.brief.plain.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
        "listener.name.brief.scram-sha-256.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
    }

    def listeners(node: Node) -> dict[str, str]:
        more = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
        return {"listeners": ",".join((f"CONTROLLER://{node.controller_address}", *more))}

    with kafka(
        brokers=0,
        controllers=1,
        properties=properties,
        node_properties=listeners,
        format_arguments=scram_arguments(),
    ) as cluster:
        cluster.wait_for_leader()
        yield Place(cluster, ports, directory, authority)


def with_odd_user(key: str) -> dict[str, str]:
    text = sasl_server_properties("sasl")[key].replace(";", f" user_odd={ODD_PASSWORD};")
    return {key: properties_text({"": text}).removeprefix("=").removesuffix("\n")}


async def fetch(upstream: Upstream) -> int:
    """The error code of an observer's first Fetch: an accepted one gets FENCED_LEADER_EPOCH."""
    version = upstream.common_version(FETCH, range(13, 19))
    partition = FetchPartition(
        partition=0, fetch_offset=0, last_fetched_epoch=0, current_leader_epoch=0
    )
    topics = [FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])]
    answer = await upstream.call(FetchRequest(max_wait_ms=0, topics=topics), version, timeout_s=15)
    if answer.error_code:
        return int(answer.error_code)
    return int(answer.responses[0].partitions[0].error_code)


LET_IN = ErrorCode.FENCED_LEADER_EPOCH


def refused(
    place: Place,
    kind: type[UpstreamError],
    listener: str,
    *parts: Mapping[str, str],
    host: str = "127.0.0.1",
) -> str:
    """The sentence of the refusal, which names the node and holds no password."""
    with pytest.raises(kind) as caught:
        place.ask(listener, *parts, host=host)
    text = str(caught.value)
    assert text.startswith(f"{host}:{place.ports[listener]} (")
    assert ADMIN_PASSWORD not in text and "wrong-secret" not in text
    return text


def test_tls_verifies_the_node(place: Place) -> None:
    assert place.ask("TLS", place.trust()) == LET_IN
    assert place.ask("TLS", place.trust(), host="localhost") == LET_IN


def test_certificate_of_another_authority_is_refused(place: Place) -> None:
    text = refused(place, TlsFailed, "TLS", place.trust(Authority("Another CA")))
    assert "certificate was refused" in text and "ssl.truststore.location" in text


def test_certificate_for_another_host_is_refused(place: Place) -> None:
    text = refused(place, TlsFailed, "ELSEWHERE", place.trust())
    assert "certificate was refused" in text and "ssl.endpoint.identification.algorithm" in text
    assert (
        place.ask("ELSEWHERE", place.trust(), {"ssl.endpoint.identification.algorithm": ""})
        == LET_IN
    )


def test_listener_with_an_older_tls_is_observed(place: Place) -> None:
    assert place.ask("TLS", place.trust(), {"ssl.enabled.protocols": "TLSv1.2"}) == LET_IN


def test_pkcs12_stores_are_read(place: Place) -> None:
    trust, own = place.directory / "trust.p12", place.directory / "friend.p12"
    trust.write_bytes(place.authority.java_truststore())
    own.write_bytes(place.authority.issue("friend").pkcs12())
    stores = {
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": str(own),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    assert place.ask("MTLS", stores) == LET_IN


def test_mutual_tls_authenticates_the_client(place: Place) -> None:
    assert place.ask("MTLS", place.trust(), place.identity("friend")) == LET_IN
    # Known, but without CLUSTER_ACTION.
    assert (
        place.ask("MTLS", place.trust(), place.identity("nobody"))
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


def test_untrusted_client_certificate_is_refused(place: Place) -> None:
    for parts in ([place.trust()], [place.trust(), place.identity("forged", Authority("Forger"))]):
        with pytest.raises((TlsFailed, ConnectionClosed)) as caught:
            place.ask("MTLS", *parts)
        assert "ssl.keystore.location" in str(caught.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
def test_sasl_mechanism_authenticates_the_client(
    place: Place, listener: str, mechanism: str
) -> None:
    trust = place.trust() if listener == "SASLTLS" else {}
    good = sasl_client_properties(mechanism, ADMIN, ADMIN_PASSWORD)
    assert place.ask(listener, trust, good) == LET_IN
    without_rights = sasl_client_properties(mechanism, OUTSIDER, OUTSIDER_PASSWORD)
    assert place.ask(listener, trust, without_rights) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for username, password in ((ADMIN, "wrong-secret"), ("nobody", ADMIN_PASSWORD)):
        text = refused(
            place,
            AuthenticationFailed,
            listener,
            trust,
            sasl_client_properties(mechanism, username, password),
        )
        assert (
            f"{mechanism} as '{username}'" in text
            and "SASL_AUTHENTICATION_FAILED (58)" in text
            and "sasl.jaas.config" in text
        )


def test_unsupported_mechanism_is_reported(place: Place) -> None:
    text = refused(
        place,
        AuthenticationFailed,
        "BRIEF",
        sasl_client_properties("SCRAM-SHA-512", ADMIN, ADMIN_PASSWORD),
    )
    assert "does not have SCRAM-SHA-512" in text and "PLAIN" in text and "sasl.mechanism" in text


def test_session_is_reauthenticated_on_its_connection(place: Place) -> None:
    """KIP-368: the controller closes a connection that is used later than
    ``connections.max.reauth.ms``.
    """

    async def session(mechanism: str) -> None:
        upstream = await place.connect(
            "BRIEF", sasl_client_properties(mechanism, ADMIN, ADMIN_PASSWORD)
        )
        try:
            for pause_s in (0.0, 0.5, 0.9, 0.5, 2 * REAUTHENTICATE_MS / 1000, 0.1):
                await trio.sleep(pause_s)
                assert await fetch(upstream) == LET_IN
        finally:
            await upstream.aclose()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                nursery.start_soon(session, mechanism)

    trio.run(run)


#: (listener, protocol of the client, words that the error must contain)
MISTAKES = [
    ("TLS", "PLAINTEXT", "set security.protocol to SSL or SASL_SSL"),
    ("SASLTLS", "SASL_PLAINTEXT", "set security.protocol to SSL or SASL_SSL"),
    ("SASL", "PLAINTEXT", "does this listener want SASL"),
    ("SASLTLS", "SSL", "does this listener want SASL"),
    ("SASL", "SASL_SSL", "does this listener speak TLS?"),
    ("TLS", "SASL_SSL", "this listener wants no SASL"),
]


@pytest.mark.parametrize(("listener", "protocol", "words"), MISTAKES)
def test_wrong_protocol_is_named_in_the_error(
    place: Place, listener: str, protocol: str, words: str
) -> None:
    sasl = (
        sasl_client_properties("PLAIN", ADMIN, ADMIN_PASSWORD)
        if protocol.startswith("SASL")
        else {}
    )
    trust = place.trust() if protocol.endswith("SSL") else {}
    assert words in refused(
        place, UpstreamError, listener, {"security.protocol": protocol}, trust, sasl
    )


def test_password_with_special_characters_authenticates(place: Place) -> None:
    """The controller reads the password with Java's properties and Kafka's JAAS parser; kwire
    reads the same text alike.
    """
    module = f'{PLAIN_MODULE} required username="odd" password={ODD_PASSWORD};'
    assert (
        place.ask("SASL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": module})
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    shorter = module.replace("#", "")
    refused(
        place,
        AuthenticationFailed,
        "SASL",
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": shorter},
    )
