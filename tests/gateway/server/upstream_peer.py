"""A scripted Kafka node, which answers byte by byte if a test needs it."""

from __future__ import annotations

import contextlib
import math
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio

from gateway.base.address import Address
from gateway.security.client_properties import ClientSecurity
from gateway.server.node_client.connection import Upstream
from kwire.frame import FrameSplitter, frame
from kwire.header import decode_request_header, encode_response_header
from kwire.message import Message
from kwire.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.registry import request_type
from tests.waiting import PATIENCE_S

API_VERSIONS, HEARTBEAT, HANDSHAKE, AUTHENTICATE = 18, 12, 17, 36
OFFER = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, max_version=newest)
        for key, newest in ((API_VERSIONS, 4), (HEARTBEAT, 4), (HANDSHAKE, 1), (AUTHENTICATE, 2))
    ],
    supported_features=[SupportedFeatureKey(name="kraft.version", max_version=1)],
)


@dataclass(frozen=True)
class Asked:
    """A received request."""

    header: Any
    message: Any

    @property
    def key(self) -> int:
        return int(self.header.request_api_key)

    @property
    def version(self) -> int:
        return int(self.header.request_api_version)

    def answer(
        self, response: Message, *, version: int | None = None, correlation_id: int | None = None
    ) -> bytes:
        """The frame of ``response``."""
        number = self.header.correlation_id if correlation_id is None else correlation_id
        body = response.encode(self.version if version is None else version)
        return frame(encode_response_header(self.key, self.version, number), body)


class Node:
    """The node's end of one connection."""

    def __init__(self, stream: trio.abc.Stream, seen: list[Asked]) -> None:
        self.stream = stream
        self._seen = seen
        self._splitter = FrameSplitter(1 << 20)

    async def next(self) -> Asked:
        """The next request. Raises EndOfChannel when the client has closed the connection."""
        while (data := self._splitter.next_frame()) is None:
            try:
                received = await self.stream.receive_some(65536)
            except trio.BrokenResourceError:
                received = b""
            if not received:
                raise trio.EndOfChannel
            self._splitter.feed(bytes(received))
        header, at = decode_request_header(data)
        kind, version = request_type(header.request_api_key), header.request_api_version
        asked = Asked(header, kind.decode(data[at:], version) if version in kind.VERSIONS else None)
        self._seen.append(asked)
        return asked

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def greet(self, offer: ApiVersionsResponse = OFFER) -> None:
        """Answer the ApiVersions request that comes next."""
        asked = await self.next()
        assert asked.key == API_VERSIONS
        await self.greet_with(asked, offer)

    async def greet_with(self, asked: Asked, offer: ApiVersionsResponse = OFFER) -> None:
        """Answer this ApiVersions request."""
        shown = offer if asked.version >= 3 else offer.copy(supported_features=[])
        await self.send(asked.answer(shown))


Script = Callable[[Node], Awaitable[None]]


@dataclass
class Peer:
    """A listening node with the requests that it received and the number of its connections."""

    port: int
    seen: list[Asked] = field(default_factory=list)
    connections: int = 0
    idle: trio.Event = field(default_factory=trio.Event)  #: Set while there is no connection.

    def __post_init__(self) -> None:
        self.idle.set()

    async def connect(
        self, security: ClientSecurity | None = None, *, host: str = "127.0.0.1", **options: Any
    ) -> Upstream:
        how: dict[str, Any] = {"client_id": "test", "timeout_s": 5.0, **options}
        return await Upstream.connect(Address(host, self.port), security or ClientSecurity(), **how)


@contextlib.asynccontextmanager
async def listening(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Run ``script`` for each connection. At the end the client must have closed all of them."""
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        peer = Peer(listener.socket.getsockname()[1])

        async def serve(tcp: trio.SocketStream) -> None:
            peer.connections += 1
            peer.idle = trio.Event()
            stream: trio.abc.Stream = (
                tcp
                if context is None
                else trio.SSLStream(tcp, context, server_side=True, https_compatible=True)
            )
            try:
                await script(Node(stream, peer.seen))
            except (trio.EndOfChannel, trio.BrokenResourceError):
                pass
            finally:
                await trio.aclose_forcefully(stream)
                peer.connections -= 1
                if not peer.connections:
                    peer.idle.set()

        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield peer
        # A connection that the client left open would keep its script waiting.
        with trio.fail_after(PATIENCE_S):
            await peer.idle.wait()
        nursery.cancel_scope.cancel()


async def polite(node: Node) -> None:
    """Answer ApiVersions, and Heartbeat with the request's generation as the error code."""
    await node.greet()
    while True:
        asked = await node.next()
        await node.send(asked.answer(HeartbeatResponse(error_code=asked.message.generation_id)))


def heartbeat(number: int = 7) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def sized(size: int, data: bytes = b"") -> bytes:
    """``data`` behind a size that the test gives."""
    return struct.pack(">i", size) + data


def run(main: Callable[[], Awaitable[None]], *, clock: trio.abc.Clock | None = None) -> None:
    """Run a test with a limit of real time."""

    async def bounded() -> None:
        with trio.fail_after(4 * PATIENCE_S if clock is None else math.inf):
            await main()

    trio.run(bounded, clock=clock)
