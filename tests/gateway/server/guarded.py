"""A server with listeners of every security protocol over the sample log, and clients of it."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from gateway.app.node import serve
from gateway.config.config import Config, Listener
from gateway.server.management.running_server import RunningServer
from kwire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata_request import MetadataRequest
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.uuid import METADATA_TOPIC_ID
from tests.gateway.server.harness import Client, request
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
