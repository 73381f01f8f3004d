"""SASL of a connection to a node: the order of requests, refusals, sessions that expire, and
servers that cheat.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from gateway.security.client_properties import ClientSecurity
from gateway.security.sasl_client import SaslSettings
from gateway.security.secret import Secret
from gateway.server.node_client.errors import (
    AuthenticationFailed,
    BadAnswer,
    TimedOut,
    UnsupportedByPeer,
)
from kwire.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.messages.sasl_handshake_response import SaslHandshakeResponse
from tests.gateway.server.upstream_peer import (
    API_VERSIONS,
    AUTHENTICATE,
    HANDSHAKE,
    HEARTBEAT,
    Node,
    Script,
    heartbeat,
    listening,
    run,
)

USER, PASSWORD = "ann, the = first", "s3cret-s3cret"


def security(mechanism: str, password: str = PASSWORD) -> ClientSecurity:
    return ClientSecurity("SASL_PLAINTEXT", sasl=SaslSettings(mechanism, USER, Secret(password)))


class ScramNode:
    """The server's side of SCRAM by RFC 5802, with a switch for each violation."""

    def __init__(
        self,
        name: str,
        *,
        iterations: int = 4096,
        sent: str = "",
        nonce: str | None = None,
        forged: bool = False,
    ) -> None:
        self.hash = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[name]
        self.iterations, self.sent, self.nonce, self.forged = iterations, sent, nonce, forged
        self.first = b""
        self.server_first = b""

    def answer(self, token: bytes) -> SaslAuthenticateResponse:
        if not self.first:
            self.first = token.removeprefix(b"n,,")
            assert b"n=ann=2C the =3D first,r=" in self.first
            nonce = (
                self.first.split(b"r=")[1].decode() + "Server" if self.nonce is None else self.nonce
            )
            text = (
                f"r={nonce},s={base64.b64encode(b'salt').decode()},i={self.sent or self.iterations}"
            )
            self.server_first = text.encode()
            return SaslAuthenticateResponse(auth_bytes=self.server_first)
        without_proof, _, proof = token.partition(b",p=")
        salted = hashlib.pbkdf2_hmac(self.hash, PASSWORD.encode(), b"salt", self.iterations)
        message = b",".join((self.first, self.server_first, without_proof))
        signature = self._hmac(
            hashlib.new(self.hash, self._hmac(salted, b"Client Key")).digest(), message
        )
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if key != self._hmac(salted, b"Client Key"):
            return SaslAuthenticateResponse(
                error_code=58, error_message="Authentication failed: no\nsuch thing"
            )
        verifier = self._hmac(
            self._hmac(b"guess" if self.forged else salted, b"Server Key"), message
        )
        return SaslAuthenticateResponse(auth_bytes=b"v=" + base64.b64encode(verifier))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.hash)


class PlainNode:
    def answer(self, token: bytes) -> SaslAuthenticateResponse:
        if token == b"\0" + USER.encode() + b"\0" + PASSWORD.encode():
            return SaslAuthenticateResponse()
        return SaslAuthenticateResponse(
            error_code=58, error_message="Authentication failed: Invalid username or password"
        )


def guarded(make: Callable[[], ScramNode | PlainNode], *, lifetime_ms: int = 0) -> Script:
    """A node that requires SASL and then answers Heartbeat."""

    async def script(node: Node) -> None:
        mechanism = make()
        while True:
            asked = await node.next()
            if asked.key == API_VERSIONS:
                await node.greet_with(asked)
            elif asked.key == HANDSHAKE:
                mechanism = make()
                await node.send(
                    asked.answer(SaslHandshakeResponse(mechanisms=[asked.message.mechanism]))
                )
            elif asked.key == AUTHENTICATE:
                response = mechanism.answer(asked.message.auth_bytes)
                response.session_lifetime_ms = lifetime_ms
                await node.send(asked.answer(response))
            else:
                await node.send(
                    asked.answer(HeartbeatResponse(error_code=asked.message.generation_id))
                )

    return script


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_requests_are_in_the_order_of_javas_clients(mechanism: str) -> None:
    async def main() -> None:
        make = PlainNode if mechanism == "PLAIN" else lambda: ScramNode(mechanism)
        async with listening(guarded(make)) as peer:
            upstream = await peer.connect(security(mechanism))
            assert (await upstream.call(heartbeat(3), 4, timeout_s=5)).error_code == 3
            await upstream.aclose()
            tokens = [(AUTHENTICATE, 2, "test")] * (1 if mechanism == "PLAIN" else 2)
            order = [
                (API_VERSIONS, 0, None),
                (HANDSHAKE, 1, "test"),
                *tokens,
                (API_VERSIONS, 4, "test"),
                (HEARTBEAT, 4, "test"),
            ]
            assert [
                (asked.key, asked.version, asked.header.client_id) for asked in peer.seen
            ] == order
            assert mechanism in repr(upstream) and PASSWORD not in repr(upstream)

    run(main)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_password_is_authentication_failed(mechanism: str) -> None:
    async def main() -> None:
        make = PlainNode if mechanism == "PLAIN" else lambda: ScramNode(mechanism)
        async with listening(guarded(make)) as peer:
            with pytest.raises(AuthenticationFailed) as caught:
                await peer.connect(security(mechanism, "wrong-secret"))
            text = str(caught.value)
            assert (
                f"{mechanism} as 'ann, the = first'" in text
                and "SASL_AUTHENTICATION_FAILED (58)" in text
            )
            assert "sasl.jaas.config" in text and "\n" not in text and "secret" not in text

    run(main)


LIES: dict[str, tuple[dict[str, Any], str]] = {
    "forged signature": ({"forged": True}, "not who it should be"),
    "too many iterations": ({"sent": "16385"}, "asks for 16385 SCRAM iterations"),
    "absurdly many": ({"sent": "2147483647"}, "asks for 2147483647 SCRAM iterations"),
    "too few": ({"sent": "4095"}, "asks for 4095 SCRAM iterations"),
    "no number": ({"sent": "4096.0"}, "malformed"),
    "another's nonce": ({"nonce": "abcdefgh"}, "does not continue the client"),
}


@pytest.mark.parametrize("lie", LIES)
def test_node_without_the_password_is_authentication_failed(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, words = LIES[lie]
    if "forged" not in options:  # refused before any work is done
        monkeypatch.setattr(
            "gateway.security.scram.hashlib.pbkdf2_hmac",
            lambda *_: pytest.fail("a key was derived"),
        )

    async def main() -> None:
        async with listening(guarded(lambda: ScramNode("SCRAM-SHA-512", **options))) as peer:
            with pytest.raises(AuthenticationFailed, match=words):
                await peer.connect(security("SCRAM-SHA-512"))

    run(main)


def test_scram_key_is_derived_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    loop, where = threading.get_ident(), []
    derive = hashlib.pbkdf2_hmac

    def watched(*arguments: Any) -> bytes:
        if arguments[2] == b"salt" and threading.get_ident() != loop:
            where.append("thread")
        return derive(*arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", watched)

    async def main() -> None:
        async with listening(guarded(lambda: ScramNode("SCRAM-SHA-256"))) as peer:
            await (await peer.connect(security("SCRAM-SHA-256"))).aclose()

    run(main)
    assert where == ["thread"]


def test_refused_handshake_is_authentication_failed_with_advice() -> None:
    async def refusing(node: Node, code: int) -> None:
        await node.greet()
        asked = await node.next()
        await node.send(
            asked.answer(
                SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-512", "GSS\nAPI"])
            )
        )
        await node.next()

    words = {
        33: "does not have PLAIN, it offers 'SCRAM-SHA-512, GSS",
        34: "this listener wants no SASL; set security.protocol",
        -1: "UNKNOWN_SERVER_ERROR",
        999: "error code 999",
    }

    async def main() -> None:
        for code, expected in words.items():
            async with listening(partial(refusing, code=code)) as peer:
                with pytest.raises(AuthenticationFailed) as caught:
                    await peer.connect(security("PLAIN"))
                assert expected in str(caught.value) and "\n" not in str(caught.value)

    run(main)


def test_node_without_sasl_requests_is_unsupported() -> None:
    async def script(node: Node) -> None:
        await node.greet(
            ApiVersionsResponse(api_keys=[ApiVersion(api_key=API_VERSIONS, max_version=4)])
        )
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(UnsupportedByPeer, match="SaslHandshake"):
                await peer.connect(security("PLAIN"))

    run(main)


class Talker:
    """A mechanism that never completes."""

    def answer(self, token: bytes) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(auth_bytes=b"more")


def test_node_that_never_completes_is_authentication_failed() -> None:
    async def main() -> None:
        async with listening(guarded(Talker)) as peer:  # type: ignore[arg-type]
            for mechanism in ("PLAIN", "SCRAM-SHA-256"):
                with pytest.raises(AuthenticationFailed, match="not authenticated"):
                    await peer.connect(security(mechanism))

    run(main)


def test_large_token_before_authentication_is_refused() -> None:
    class Large:
        def answer(self, token: bytes) -> SaslAuthenticateResponse:
            return SaslAuthenticateResponse(auth_bytes=bytes(600 * 1024))

    async def main() -> None:
        async with listening(guarded(Large)) as peer:  # type: ignore[arg-type]
            with pytest.raises(BadAnswer, match="above the limit"):
                await peer.connect(security("PLAIN"))

    run(main)


def test_timeout_names_the_authentication() -> None:
    async def script(node: Node) -> None:
        await node.greet()
        await node.next()
        await node.next()

    async def main() -> None:
        async with listening(script) as peer:
            with pytest.raises(TimedOut, match="no end of the authentication within"):
                await peer.connect(security("PLAIN"), timeout_s=0.1)

    run(main)


def test_session_is_renewed_before_it_expires() -> None:
    clock = trio.testing.MockClock(rate=1)

    async def main() -> None:
        async with listening(
            guarded(lambda: ScramNode("SCRAM-SHA-256"), lifetime_ms=3_600_000)
        ) as peer:
            upstream = await peer.connect(security("SCRAM-SHA-256"))
            began = len(peer.seen)
            for pause_s in (0, 1800, 1800, 3000, 7200):
                clock.jump(pause_s)
                await upstream.call(heartbeat(), 4, timeout_s=5)
            again = [HANDSHAKE, AUTHENTICATE, AUTHENTICATE]
            asked = [HEARTBEAT, HEARTBEAT, *again, HEARTBEAT, HEARTBEAT, *again, HEARTBEAT]
            assert [one.key for one in peer.seen[began:]] == asked
            await upstream.aclose()

    run(main, clock=clock)


def test_failed_renewal_closes_the_connection() -> None:
    passwords = iter(["", "changed meanwhile"])

    class Changing(PlainNode):
        def answer(self, token: bytes) -> SaslAuthenticateResponse:
            return super().answer(token + next(passwords).encode())

    async def main() -> None:
        async with listening(guarded(Changing, lifetime_ms=1)) as peer:
            upstream = await peer.connect(security("PLAIN"))
            await trio.sleep(0.01)
            with pytest.raises(AuthenticationFailed):
                await upstream.call(heartbeat(), 4, timeout_s=5)
            assert not upstream.is_open

    run(main)
