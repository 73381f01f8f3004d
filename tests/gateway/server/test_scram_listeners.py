"""SCRAM listeners of whole servers: unknown users, and re-authentication by another kind of
credential.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from gateway.config.config import Config, Listener
from gateway.security.delegation_tokens import token_hmac
from gateway.security.scram import ScramClient
from gateway.security.secret import Secret
from kwire.message import Message
from kwire.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.gateway.server.harness import Client, connect, request, run
from tests.gateway.server.own_nodes import CLUSTER_ID, QUICK, OwnNode, own_node
from tests.waiting import until_async

MECHANISM, NUMBER = "SCRAM-SHA-512", 2
KEY = "shared by all nodes"
WITH_TOKENS: dict[str, Any] = {"delegation.token.secret.key": KEY}
PASSWORD, SALT = "alice's", b"1k2j3h4g5f6d7s8a9q0w1e2r3"
NOT_ALLOWED = 64


@contextlib.asynccontextmanager
async def scram_node(
    directory: Path,
    *,
    iterations: int = 8192,
    settings: Mapping[str, Any] = MappingProxyType({}),
    **security: Any,
) -> AsyncIterator[OwnNode]:
    """A quorum of one with users alice and bob, a listener without authentication and one with
    SCRAM.
    """
    names = ("PLAINTEXT", "SASL", "CONTROLLER")
    config = Config(
        listeners=tuple(Listener(name, "127.0.0.1", 0) for name in names),
        listener_security_protocol_map={
            "PLAINTEXT": "PLAINTEXT",
            "SASL": "SASL_PLAINTEXT",
            "CONTROLLER": "PLAINTEXT",
        },
        cluster_id=CLUSTER_ID,
        data_dir=directory,
        security={
            "sasl.enabled.mechanisms": MECHANISM,
            "connections.max.reauth.ms": "60000",
            **security,
        },
        **{
            **QUICK,
            "metadata_max_idle_interval_ms": 0,
            "connection_failed_authentication_delay_ms": 0,
            **settings,
        },
    )
    async with own_node(config) as node:
        await until_async(lambda: node.quorum.controller.is_active)
        salted = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), SALT, iterations)
        users = [
            ScramCredentialUpsertion(
                name=name,
                mechanism=NUMBER,
                iterations=iterations,
                salt=SALT,
                salted_password=salted,
            )
            for name in ("alice", "bob")
        ]
        answer = await node.ask(AlterUserScramCredentialsRequest(upsertions=users), 0)
        assert [one.error_code for one in answer.results] == [0, 0]
        await until_async(lambda: len(node.quorum.image.scram) == len(users))
        yield node


async def ask(client: Client, message: Message, version: int) -> Any:
    assert message.API_KEY is not None
    await client.send(request(message.API_KEY, version, message.encode(version)))
    return (await client.answer(message.API_KEY, version))[1]


async def first_answer(node: OwnNode, name: str, extension: str = "") -> tuple[int, bytes, int]:
    """(error, salt, iterations) of the server's first message for this name."""
    async with await connect(node.ports["SASL"]) as client:
        assert (await ask(client, SaslHandshakeRequest(mechanism=MECHANISM), 1)).error_code == 0
        answer = await ask(
            client,
            SaslAuthenticateRequest(auth_bytes=f"n,,n={name},r=nonce{extension}".encode()),
            2,
        )
    parts = dict(part.split("=", 1) for part in bytes(answer.auth_bytes).decode().split(","))
    return answer.error_code, base64.b64decode(parts["s"]), int(parts["i"])


class TokenClient(ScramClient):
    """SCRAM with the id of a delegation token as the name, and its HMAC as the password."""

    def _bare(self) -> str:
        return super()._bare() + ",tokenauth=true"


async def authenticate(client: Client, scram: ScramClient) -> Any:
    assert (await ask(client, SaslHandshakeRequest(mechanism=MECHANISM), 1)).error_code == 0
    answer = await ask(client, SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
    final = scram.respond(bytes(answer.auth_bytes))
    assert final is not None
    return await ask(client, SaslAuthenticateRequest(auth_bytes=final), 2)


async def log_in(client: Client, *, token_id: str | None = None) -> None:
    """Authenticate as alice, by password or by a token of that user."""
    if token_id is None:
        scram = ScramClient(MECHANISM, "alice", Secret(PASSWORD), "nonce")
    else:
        password = base64.b64encode(token_hmac(Secret(KEY), token_id)).decode()
        scram = TokenClient(MECHANISM, token_id, Secret(password), "nonce")
    answer = await authenticate(client, scram)
    assert answer.error_code == 0, answer.error_message


def test_unknown_user_gets_the_same_salt_at_every_node_and_the_iterations_of_users(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        said = []
        without: dict[str, Any] = {}
        for directory in ("one", "two"):
            for security in (without, WITH_TOKENS):
                async with scram_node(
                    tmp_path / directory / str(len(security)),
                    **security,
                ) as node:
                    alice = await first_answer(node, "alice")
                    assert alice == (0, SALT, 8192)
                    eve = await first_answer(node, "eve")
                    assert (
                        eve == await first_answer(node, "eve")
                        and eve[1] != (await first_answer(node, "eva"))[1]
                    )
                    assert (eve[0], eve[2]) == (0, 8192) and abs(len(eve[1]) - len(SALT)) <= 1
                    said.append(eve)
        assert said[0] == said[2] and said[1] == said[3] and said[0] != said[1]

    run(main)


def test_token_that_does_not_exist_looks_like_one_that_does(tmp_path: Path) -> None:
    async def main() -> None:
        async with scram_node(tmp_path, **WITH_TOKENS) as node:
            async with await connect(node.ports["SASL"]) as client:
                await log_in(client)
                token = await ask(client, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            await until_async(lambda: token.token_id in node.quorum.image.tokens)
            real = await first_answer(node, token.token_id, ",tokenauth=true")
            none = await first_answer(node, "no-such-token", ",tokenauth=true")
            for error, salt, iterations in (real, none):
                assert (
                    (error, iterations) == (0, 4096)
                    and salt.isalnum()
                    and len(salt) in range(22, 27)
                )

    run(main)


@pytest.mark.parametrize("token_comes_first", [False, True])
def test_token_request_is_authorized_by_the_latest_authentication(
    tmp_path: Path, token_comes_first: bool
) -> None:
    async def main() -> None:
        async with scram_node(tmp_path, **WITH_TOKENS) as node:
            async with await connect(node.ports["SASL"]) as client:
                await log_in(client)
                token = await ask(client, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
            assert token.error_code == 0
            await until_async(lambda: token.token_id in node.quorum.image.tokens)
            async with await connect(node.ports["SASL"]) as client:
                for by_token in (token_comes_first, not token_comes_first, token_comes_first):
                    await log_in(client, token_id=token.token_id if by_token else None)
                    answer = await ask(client, CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
                    assert answer.error_code == (NOT_ALLOWED if by_token else 0)
                    await trio.sleep(1.05)  # Kafka refuses re-authentication within a second

    run(main)
