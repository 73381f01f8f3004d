"""Listeners with TLS and SASL, from bytes on a socket: what is let in, what ends a connection, the
same log through each.
"""

from __future__ import annotations

import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from gateway.app import RunningServer, serve
from gateway.config import Config, Listener
from gateway.security.secret import Secret
from gateway.server.upstream import Upstream
from gateway.server.upstream_errors import AuthenticationFailed
from kwire.frame import frame
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.server.harness import Client, request, run, until
from tools.kafka_security import (
    PLAIN_MODULE,
    Authority,
    Identity,
    key_store_properties,
    trust_store_properties,
)

FETCH, METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 1, 3, 17, 18, 36
DELAY_MS = 300
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
RIGHT, WRONG = b"\0bob\0secret", b"\0bob\0Secret"


@dataclass
class Place:
    """A server with every kind of listener over the sample log."""

    ready: RunningServer
    authority: Authority

    def port(self, listener: str) -> int:
        return next(
            bound_listener.port
            for bound_listener in self.ready.bound_listeners
            if bound_listener.name == listener
        )

    @property
    def counts(self) -> Any:
        return self.ready.reports.counts

    async def connect(self, listener: str, identity: Identity | None = None) -> Client:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port(listener))
        if not PROTOCOLS[listener].endswith("SSL"):
            return Client(stream)
        context = ssl.SSLContext(
            ssl.PROTOCOL_TLS_CLIENT
        )  # Python 3.13's default one refuses certificates that Java accepts
        context.load_verify_locations(cadata=self.authority.pem)
        if identity is not None:
            self.files.joinpath("own.pem").write_text(identity.pem())
            context.load_cert_chain(self.files / "own.pem")
        secured = trio.SSLStream(
            stream, context, server_hostname="localhost", https_compatible=True
        )
        await secured.do_handshake()
        return Client(secured)  # type: ignore[arg-type]

    files: Path = Path()


@contextlib.asynccontextmanager
async def place(directory: Path, **more: Any) -> AsyncIterator[Place]:
    authority = Authority()
    stores = key_store_properties(directory / "node.pem", authority.issue("node"))
    stores |= trust_store_properties(directory / "ca.pem", authority)
    users = f'{PLAIN_MODULE} required user_bob="secret" user_alice="secret";'
    security = stores | {
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    security |= {f"listener.name.{name}.plain.sasl.jaas.config": users for name in ("sasl", "both")}
    config = Config(
        source="sample",
        state_dir=directory / "state",
        listeners=tuple(Listener(name, "127.0.0.1", 0) for name in PROTOCOLS),
        listener_security_protocol_map=PROTOCOLS,
        security=security | more.pop("security", {}),
        **{"connection_failed_authentication_delay_ms": DELAY_MS, "drain_timeout_ms": 500, **more},
    )
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        ready = await nursery.start(serve, config, stop)
        yield Place(ready, authority, directory)
        stop.set()


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism).encode(version), 1)


def authenticate(token: bytes, version: int = 2) -> bytes:
    return request(
        AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token).encode(version), 2
    )


def metadata(correlation_id: int = 3) -> bytes:
    return request(METADATA, 9, MetadataRequest(topics=None).encode(9), correlation_id)


async def log_in(client: Client, token: bytes = RIGHT) -> Any:
    await client.send(handshake())
    assert (await client.answer(HANDSHAKE, 1))[1].error_code == 0
    await client.send(authenticate(token))
    return (await client.answer(AUTHENTICATE, 2))[1]


async def whole_log(client: Client) -> bytes:
    topic = FetchTopic(
        topic_id=METADATA_TOPIC_ID,
        partitions=[FetchPartition(partition=0, partition_max_bytes=10_000_000)],
    )
    asked = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=[topic])
    await client.send(request(FETCH, 13, asked.encode(13), 4))
    _, answer = await client.answer(FETCH, 13)
    return bytes(answer.responses[0].partitions[0].records)


def test_every_listener_serves_the_same_log(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server:
            logs = {}
            for name in PROTOCOLS:
                async with await server.connect(name, server.authority.issue("friend")) as client:
                    if PROTOCOLS[name].startswith("SASL"):
                        assert (await log_in(client)).error_code == 0
                    logs[name] = await whole_log(client)
                    assert logs[name] == await whole_log(
                        client
                    )  # what was decided about sending holds for the next answer
            assert len(logs["PLAINTEXT"]) > 50_000 and len(set(logs.values())) == 1

    run(main)


def test_slow_reader_gets_the_whole_response_through_tls(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, socket_send_buffer_bytes=4096) as server:
            async with await server.connect("PLAINTEXT") as client:
                expected = await whole_log(client)
            async with await server.connect("TLS") as client:
                topic = FetchTopic(
                    topic_id=METADATA_TOPIC_ID,
                    partitions=[FetchPartition(partition_max_bytes=10_000_000)],
                )
                asked = request(
                    FETCH,
                    13,
                    FetchRequest(min_bytes=0, max_bytes=50_000_000, topics=[topic]).encode(13),
                    4,
                )
                await client.send(asked * 20)
                await trio.sleep(0.2)
                for _ in range(20):
                    _, answer = await client.answer(FETCH, 13)
                    assert bytes(answer.responses[0].partitions[0].records) == expected

    run(main)


@pytest.mark.parametrize("first", [b"", handshake()], ids=["at once", "after the handshake"])
@pytest.mark.parametrize(
    "asked", [metadata(), frame(b"\x03\xe7" + bytes(8)), b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\4abcd"]
)
def test_unauthenticated_request_closes_the_connection(
    tmp_path: Path, first: bytes, asked: bytes
) -> None:
    async def main() -> None:
        async with place(tmp_path) as server, await server.connect("SASL") as client:
            if first:
                await client.send(first)
                await client.answer(HANDSHAKE, 1)
            await client.send(asked)
            assert await client.closed() == b""

    run(main)


def test_api_versions_is_answered_before_authentication_once(tmp_path: Path) -> None:
    async def main() -> None:
        asked = request(API_VERSIONS, 0, ApiVersionsRequest().encode(0), 9)
        async with place(tmp_path) as server:
            async with await server.connect("SASL") as client:
                await client.send(
                    request(API_VERSIONS, 99, b"\0", 8)
                )  # a version that there is not: told, and asked again
                assert (await client.answer(API_VERSIONS, 0))[1].error_code == 35
                await client.send(asked)
                assert (await client.answer(API_VERSIONS, 0))[1].error_code == 0
                assert (await log_in(client)).error_code == 0
                await client.send(asked + metadata())
                await client.answer(API_VERSIONS, 0)
                assert (await client.answer(METADATA, 9))[0] == 3
            async with await server.connect("SASL") as client:
                await client.send(asked + asked)
                await client.answer(API_VERSIONS, 0)
                assert await client.closed() == b""

    run(main)


@pytest.mark.parametrize(
    "token", [WRONG, b"\0nobody\0secret", b"alice\0bob\0secret", b"", b"x" * 1000]
)
def test_authentication_failure_is_answered_after_the_delay_and_closes(
    tmp_path: Path, token: bytes
) -> None:
    async def main() -> None:
        async with place(tmp_path) as server, await server.connect("BOTH") as client:
            began = trio.current_time()
            await client.send(handshake())
            await client.answer(HANDSHAKE, 1)
            await client.send(authenticate(token) + metadata())
            _, answer = await client.answer(AUTHENTICATE, 2)
            assert trio.current_time() - began >= DELAY_MS / 1000
            assert answer.error_code == 58 and answer.auth_bytes == b""
            assert "secret" not in answer.error_message
            assert await client.closed() == b""
            assert server.counts["authentication failed"] == 1

    run(main)


def test_mechanism_that_is_not_enabled_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server, await server.connect("SASL") as client:
            await client.send(handshake("GSSAPI") + authenticate(RIGHT))
            _, answer = await client.answer(HANDSHAKE, 1)
            assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN"])
            assert await client.closed() == b""

    run(main)


def test_sasl_handshake_on_a_listener_without_sasl_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server:
            async with await server.connect("PLAINTEXT") as client:
                await client.send(handshake() + authenticate(RIGHT) + metadata())
                assert (await client.answer(HANDSHAKE, 1))[1].error_code == 34
                assert (await client.answer(AUTHENTICATE, 2))[1].error_code == 34
                assert (await client.answer(METADATA, 9))[0] == 3
            async with await server.connect("SASL") as client:
                await log_in(client)
                await client.send(handshake() + authenticate(b"\0alice\0secret") + metadata())
                assert (await client.answer(HANDSHAKE, 1))[1].error_code == 34
                assert (await client.answer(AUTHENTICATE, 2))[1].error_code == 34
                assert (await client.answer(METADATA, 9))[0] == 3

    run(main)


def test_handshake_version_0_takes_tokens_without_headers(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server:
            async with await server.connect("SASL") as client:
                await client.send(handshake(version=0) + frame(RIGHT) + metadata())
                await client.answer(HANDSHAKE, 0)
                assert await client.frame() == b""
                assert (await client.answer(METADATA, 9))[0] == 3
            async with await server.connect("SASL") as client:
                await client.send(handshake(version=0) + frame(WRONG) + metadata())
                await client.answer(HANDSHAKE, 0)
                assert await client.closed() == b""

    run(main)


def test_large_request_before_authentication_closes_the_connection(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            place(tmp_path, sasl_server_max_receive_size=1000) as server,
            await server.connect("SASL") as client,
        ):
            await client.send(handshake())
            await client.answer(HANDSHAKE, 1)
            await client.send(authenticate(b"x" * 1001)[:4])
            assert await client.closed() == b""

    run(main)


def test_expired_session_closes_the_connection_unless_it_is_renewed(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, security={"connections.max.reauth.ms": "1500"}) as server:
            async with await server.connect("SASL") as client:
                answer = await log_in(client)
                assert answer.session_lifetime_ms == 1500
                await trio.sleep(1.1)
                assert (await log_in(client)).error_code == 0
                await trio.sleep(1.1)
                await client.send(metadata())
                assert (await client.answer(METADATA, 9))[0] == 3
                await trio.sleep(0.5)
                await client.send(metadata())
                assert await client.closed() == b""
            async with await server.connect("SASL") as client:
                await log_in(client)
                await trio.sleep(1.1)
                assert (await log_in(client, b"\0alice\0secret")).error_code == 58
                assert await client.closed() == b""

    run(main)


def test_upstream_renews_its_session(tmp_path: Path) -> None:
    from gateway.address import Address
    from gateway.security.client_properties import ClientSecurity
    from gateway.security.sasl_client import SaslSettings

    async def main() -> None:
        async with place(tmp_path, security={"connections.max.reauth.ms": "1300"}) as server:
            address = Address("127.0.0.1", server.port("SASL"))
            security = ClientSecurity(
                "SASL_PLAINTEXT", None, SaslSettings("PLAIN", "bob", Secret("secret"))
            )
            upstream = await Upstream.connect(address, security, client_id="c", timeout_s=5)
            for _ in range(5):
                await upstream.call(MetadataRequest(topics=[]), 9, timeout_s=5)
                await trio.sleep(0.6)
            await upstream.aclose()
            wrong = ClientSecurity(
                "SASL_PLAINTEXT", None, SaslSettings("PLAIN", "bob", Secret("x"))
            )
            with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
                await Upstream.connect(address, wrong, client_id="c", timeout_s=5)

    run(main)


async def refused(server: Place, identity: Identity | None) -> None:
    """With this certificate nobody is let in where one is needed."""
    with pytest.raises((trio.BrokenResourceError, AssertionError)):
        async with await server.connect("MUTUAL", identity) as client:
            await client.send(metadata())
            await client.answer(METADATA, 9)


def test_tls_listener_refuses_plaintext_and_missing_or_unknown_certificates(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path) as server:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port("TLS"))
            async with Client(stream) as client:
                await client.send(metadata())
                await client.closed()
            await until(lambda: server.counts["handshake failed"] == 1)
            for identity in (None, Authority().issue("friend")):
                await refused(server, identity)
            await until(lambda: server.counts["handshake failed"] == 3)

    run(main)


def test_client_certificate_out_of_its_time_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        async with place(tmp_path) as server:
            for times in ((now - 2 * day, now - day), (now + day, now + 2 * day)):
                identity = server.authority.issue("friend", not_before=times[0], not_after=times[1])
                await refused(server, identity)
            await until(lambda: server.counts["handshake failed"] == 2)

    run(main)


def test_many_wrong_passwords_do_not_delay_other_clients(tmp_path: Path) -> None:
    async def main() -> None:
        async def guess(server: Place, number: int) -> None:
            async with await server.connect("SASL") as client:
                assert (await log_in(client, f"\0bob\0{number}".encode())).error_code == 58

        async with (
            place(tmp_path, connection_failed_authentication_delay_ms=1500) as server,
            await server.connect("SASL") as client,
            trio.open_nursery() as nursery,
        ):
            await log_in(client)
            for number in range(300):
                nursery.start_soon(guess, server, number)
            await until(lambda: server.counts["authentication failed"] == 300)
            began = trio.current_time()
            for number in range(100):
                await client.send(metadata(number))
                assert (await client.answer(METADATA, 9))[0] == number
            assert trio.current_time() - began < 1

    run(main)


def test_unfinished_tls_handshake_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with place(tmp_path, request_receive_timeout_ms=300) as server:
            stream = await trio.open_tcp_stream("127.0.0.1", server.port("TLS"))
            async with Client(stream) as client:
                await client.send(b"\x16\x03\x01\x02\x00\x01")
                assert await client.closed(within_s=3) == b""

    run(main)
