"""Listeners with SASL, from bytes on a socket: the order of requests, refusals, and sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from gateway.security.secret import Secret
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import AuthenticationFailed
from kwire.frame import frame
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.messages.metadata_request import MetadataRequest
from tests.gateway.server.guarded import (
    API_VERSIONS,
    AUTHENTICATE,
    DELAY_MS,
    HANDSHAKE,
    METADATA,
    PROTOCOLS,
    RIGHT,
    WRONG,
    Place,
    authenticate,
    handshake,
    log_in,
    metadata,
    place,
    whole_log,
)
from tests.gateway.server.harness import request, run
from tests.waiting import PATIENCE_S, until_async


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


async def sleep_in(scope: trio.CancelScope) -> None:
    """Sleep until the deadline of ``scope``."""
    with scope:
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "token", [WRONG, b"\0nobody\0secret", b"alice\0bob\0secret", b"", b"x" * 1000]
)
def test_authentication_failure_is_answered_after_the_delay_and_closes(
    tmp_path: Path, token: bytes
) -> None:
    async def main() -> None:
        delay = trio.CancelScope()
        async with (
            place(tmp_path) as server,
            await server.connect("BOTH") as client,
            trio.open_nursery() as nursery,
        ):
            await client.send(handshake())
            await client.answer(HANDSHAKE, 1)
            delay.deadline = trio.current_time() + DELAY_MS / 1000
            nursery.start_soon(sleep_in, delay)
            await client.send(authenticate(token) + metadata())
            _, answer = await client.answer(AUTHENTICATE, 2)
            assert delay.cancelled_caught, "the answer came after the delay"
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
    clock = trio.testing.MockClock(rate=1.0)

    async def main() -> None:
        async with place(tmp_path, security={"connections.max.reauth.ms": "120000"}) as server:
            async with await server.connect("SASL") as client:
                answer = await log_in(client)
                assert answer.session_lifetime_ms == 120_000
                clock.jump(70)
                assert (await log_in(client)).error_code == 0
                clock.jump(70)
                await client.send(metadata())
                assert (await client.answer(METADATA, 9))[0] == 3
                clock.jump(51)
                await client.send(metadata())
                assert await client.closed() == b""
            async with await server.connect("SASL") as client:
                await log_in(client)
                clock.jump(70)
                assert (await log_in(client, b"\0alice\0secret")).error_code == 58
                assert await client.closed() == b""

    run(main, clock)


def test_upstream_renews_its_session(tmp_path: Path) -> None:
    from gateway.base.address import Address
    from gateway.security.client_properties import ClientSecurity
    from gateway.security.sasl_client import SaslSettings

    clock = trio.testing.MockClock(rate=1.0)

    async def main() -> None:
        async with place(tmp_path, security={"connections.max.reauth.ms": "130000"}) as server:
            address = Address("127.0.0.1", server.port("SASL"))
            security = ClientSecurity(
                "SASL_PLAINTEXT", None, SaslSettings("PLAIN", "bob", Secret("secret"))
            )
            upstream = await Upstream.connect(address, security, client_id="c", timeout_s=5)
            for _ in range(5):
                await upstream.call(MetadataRequest(topics=[]), 9, timeout_s=PATIENCE_S)
                clock.jump(60)
            await upstream.aclose()
            wrong = ClientSecurity(
                "SASL_PLAINTEXT", None, SaslSettings("PLAIN", "bob", Secret("x"))
            )
            with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
                await Upstream.connect(address, wrong, client_id="c", timeout_s=5)

    run(main, clock)


def test_many_wrong_passwords_do_not_delay_other_clients(tmp_path: Path) -> None:
    async def main() -> None:
        refused = 0

        async def guess(server: Place, number: int) -> None:
            nonlocal refused
            async with await server.connect("SASL") as client:
                await log_in(client, f"\0bob\0{number}".encode())
                refused += 1

        async with (
            place(tmp_path, connection_failed_authentication_delay_ms=60_000) as server,
            await server.connect("SASL") as client,
            trio.open_nursery() as guesses,
        ):
            await log_in(client)
            for number in range(300):
                guesses.start_soon(guess, server, number)
            await until_async(lambda: server.counts["authentication failed"] == 300)
            for number in range(20):
                await client.send(metadata(number))
                assert (await client.answer(METADATA, 9))[0] == number
            assert refused == 0, "the delay of all of them goes on"
            guesses.cancel_scope.cancel()

    run(main)
