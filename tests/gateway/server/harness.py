"""Runs a server on a free port with handlers of the test, and a client that sends bytes."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import trio
import trio.testing

from gateway.broker.quotas.client_quotas import ClientQuotas
from gateway.config.config import Config, Listener
from gateway.handlers.context import Context, Handler
from gateway.handlers.gateway_port import Gateway
from gateway.server.clients.bound_listener import bind_listeners
from gateway.server.clients.connections import Connections
from gateway.server.clients.dispatch import Dispatcher
from gateway.server.clients.purgatory import Purgatory
from gateway.server.clients.server import run_server
from gateway.server.clients.server_context import ServerContext
from gateway.server.logging.logs import Reports
from kwire.frame import frame
from kwire.header import decode_response_header, encode_request_header
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.registry import response_type
from tests.waiting import PATIENCE_S

HEARTBEAT = 12
#: The answer of the handler below says which request it answers.
ECHO = Handler(
    HEARTBEAT,
    "heartbeat",
    range(5),
    lambda request, context: HeartbeatResponse(error_code=request.generation_id),
)


@dataclass
class Served:
    """A running server of the tests."""

    port: int
    server_context: ServerContext
    connections: Connections
    stop: trio.Event

    async def connect(self, **options: Any) -> Client:
        return await connect(self.port, **options)

    @property
    def counts(self) -> Mapping[str, int]:
        return self.server_context.reports.counts


@contextlib.asynccontextmanager
async def serving(
    *handlers: Handler,
    purgatory: Purgatory | None = None,
    quotas: ClientQuotas | None = None,
    **config: Any,
) -> AsyncIterator[Served]:
    """Serve ``handlers`` (ECHO if none) under ``config``; at the end the server drains."""
    settings = Config(
        source="sample",
        listeners=(Listener("PLAINTEXT", "127.0.0.1", 0),),
        **{"drain_timeout_ms": 1000, **config},
    )
    table = {handler.api_key: handler for handler in handlers or (ECHO,)}
    purgatory = purgatory or Purgatory()
    dispatcher = Dispatcher(
        table, cast(Gateway, None), element_budget=settings.request_max_elements, quotas=quotas
    )
    server_context = ServerContext(settings, dispatcher, purgatory, Reports())
    bound_listeners, stop = bind_listeners(settings), trio.Event()
    async with trio.open_nursery() as nursery:
        connections = await nursery.start(run_server, server_context, bound_listeners, stop)
        yield Served(bound_listeners[0].port, server_context, connections, stop)
        stop.set()


class Client:
    """A connection that sends bytes as given and decodes responses."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._received = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, correlation_id: int, generation_id: int = 0) -> HeartbeatResponse:
        await self.send(heartbeat(correlation_id, generation_id))
        found, answer = await self.answer()
        assert found == correlation_id
        return cast(HeartbeatResponse, answer)

    async def answer(self, api_key: int = HEARTBEAT, version: int = 4) -> tuple[int, Any]:
        """(correlation id, message) of the next response."""
        data = await self.frame()
        header, at = decode_response_header(api_key, version, data)
        return header.correlation_id, response_type(api_key).decode(data[at:], version)

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.exactly(4))
        return await self.exactly(size)

    async def exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            piece = await self.stream.receive_some()
            assert piece, f"the server closed with {len(self._received)} of {size} bytes sent"
            self._received += piece
        found, self._received = self._received[:size], self._received[size:]
        return found

    async def closed(self) -> bytes:
        """The bytes that the server still sends before it closes the connection."""
        rest = self._received
        with trio.fail_after(PATIENCE_S):
            try:
                while piece := await self.stream.receive_some():
                    rest += piece
            except trio.BrokenResourceError:  # a reset is a close too
                pass
        return rest

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *error: object) -> None:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self.stream)


async def connect(port: int, *, receive_buffer: int | None = None) -> Client:
    sock = trio.socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
    await sock.connect(("127.0.0.1", port))
    return Client(trio.SocketStream(sock))


def request(
    api_key: int, version: int, body: bytes, correlation_id: int = 1, client_id: str | None = "test"
) -> bytes:
    """The bytes of a request, size included."""
    return frame(encode_request_header(api_key, version, correlation_id, client_id), body)


def heartbeat(correlation_id: int, generation_id: int = 0) -> bytes:
    body = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="m").encode(4)
    return request(HEARTBEAT, 4, body, correlation_id)


def handler(handle: Callable[[Any, Context], Any]) -> Handler:
    """Return a handler of Heartbeat."""
    return Handler(HEARTBEAT, "heartbeat", range(5), handle)


def run(main: Callable[[], Any], clock: trio.testing.MockClock | None = None) -> None:
    """Run a test with ``trio.run``, for no longer than it may wait for several conditions.

    A test that sets a ``clock`` forward has no limit here.
    """

    async def bounded() -> None:
        with trio.fail_after(math.inf if clock else 4 * PATIENCE_S):
            await main()

    trio.run(bounded, clock=clock)
