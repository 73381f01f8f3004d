"""An HTTP client that sends bytes as given, and a management port for it to talk to."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from gateway.server.management.facts import Facts
from gateway.server.management.management import (
    open_management,
    serve_management,
)
from gateway.server.management.page_api import PageApi
from tests.gateway.server.harness import run
from tests.gateway.server.watched import facts
from tests.waiting import PATIENCE_S

PAGES = ["/metrics", "/livez", "/readyz", "/status", "/views"]


@dataclass
class Reply:
    """A response, parsed."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends bytes as given, and reads responses."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._got = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def get(self, path: str, *headers: str, method: str = "GET") -> Reply:
        await self.send(
            "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()
        )
        return await self.reply(with_body=method != "HEAD")

    async def reply(self, *, with_body: bool = True) -> Reply:
        while b"\r\n\r\n" not in self._got:
            await self._receive()
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        line, *lines = head.decode("ascii").split("\r\n")
        headers = {name.lower(): value for name, value in (text.split(": ", 1) for text in lines)}
        size = int(headers["content-length"]) if with_body else 0
        while len(self._got) < size:
            await self._receive()
        body, self._got = self._got[:size], self._got[size:]
        _, status, reason = line.split(" ", 2)
        return Reply(int(status), reason, headers, body)

    async def closed(self) -> bytes:
        """Everything that is received before the server closes."""
        with trio.fail_after(PATIENCE_S), contextlib.suppress(trio.BrokenResourceError):
            while data := await self.stream.receive_some():
                self._got += data
        return self._got

    async def _receive(self) -> None:
        data = await self.stream.receive_some()
        assert data, f"closed after {self._got!r}"
        self._got += data


class Port:
    """A management port under test."""

    def __init__(self, number: int) -> None:
        self.number = number

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.number)
        try:
            yield Client(stream)
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)


@contextlib.asynccontextmanager
async def served(
    shown: Facts | None = None,
    *,
    token: str | None = None,
    page: PageApi | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[Port]:
    bound_listener = open_management(f"{host}:0")
    async with trio.open_nursery() as nursery:
        serve = partial(serve_management, token=token, page=page)
        await nursery.start(serve, bound_listener.sock, shown or facts())
        yield Port(bound_listener.port)
        nursery.cancel_scope.cancel()


def with_client(talk: Callable[[Client], Any], shown: Facts | None = None) -> None:
    async def main() -> None:
        async with served(shown) as port, port.client() as client:
            await talk(client)

    run(main)


def ask(path: str, *headers: str, shown: Facts | None = None, method: str = "GET") -> Reply:
    """The response to one request."""
    replies: list[Reply] = []

    async def talk(client: Client) -> None:
        replies.append(await client.get(path, *headers, method=method))

    with_client(talk, shown)
    return replies[0]


def say(data: bytes) -> bytes:
    """Send bytes, and return everything that is received before the server closes."""
    received: list[bytes] = []

    async def talk(client: Client) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await client.send(data)
        received.append(await client.closed())

    with_client(talk)
    return received[0]
