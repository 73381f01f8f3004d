"""Holds the connections of a command to the nodes of one cluster, and says why none can be had.

The connections are those of the server itself (``gateway.server.node_client.connection``): TCP,
TLS, SASL and ApiVersions, with the cause of a failure and the next step in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.listener_probe import explained
from gateway.cli.server_options import Server
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import ConnectionClosed, TimedOut, Unreachable, UpstreamError

if TYPE_CHECKING:
    from gateway.base.address import Address
    from kwire.message import Message


class ServerError(click.ClickException):
    """A server cannot be asked, or refuses. ``is_transient``: the next request may succeed."""

    def __init__(self, sentence: str, *, is_transient: bool = False) -> None:
        super().__init__(sentence)
        self.is_transient = is_transient


class ServerLost(ServerError):
    """There is no connection, or not for long enough to get an answer."""


#: How long a connection may take, with TLS, SASL and ApiVersions, s.
CONNECT_S: Final = 10.0


class Nodes:
    """At most one connection to each address. Close it after use."""

    def __init__(self, server: Server, client_id: str, timeout_s: float = CONNECT_S) -> None:
        self.server = server
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._open: dict[Address, Upstream] = {}
        self._answered: set[Address] = set()

    def another(self, timeout_s: float) -> Nodes:
        """Return connections of their own to the same nodes."""
        return Nodes(self.server, self._client_id, timeout_s)

    async def first(self) -> Upstream:
        """Return a connection to the first of the server's addresses that has one.

        Raises ServerError with a sentence for each.
        """
        failures = []
        for address in self.server.addresses:
            try:
                return await self.at(address)
            except ServerError as error:
                failures.append(error)
        all_lost = all(isinstance(one, ServerLost) for one in failures)
        raise (ServerLost if all_lost else ServerError)("\n".join(one.message for one in failures))

    async def at(self, address: Address, what: str = "") -> Upstream:
        """Return the connection to this node; ``what`` comes before the cause of a failure. Raises
        ServerError.
        """
        found = self._open.get(address)
        if found is not None and found.is_open:
            return found
        try:
            self._open[address] = found = await Upstream.connect(
                address,
                self.server.security,
                client_id=self._client_id,
                timeout_s=self._timeout_s,
            )
        except UpstreamError as error:
            raise await self._failure(error, address, what) from None
        return found

    async def ask(
        self, upstream: Upstream, request: Message, versions: range, timeout_s: float
    ) -> Any:
        """Return the response to ``request``, sent in the newest of ``versions`` that the node has.

        Raises ServerError.
        """
        try:
            version = upstream.common_version(request.API_KEY or 0, versions)
            answer = await upstream.call(request, version, timeout_s=timeout_s)
        except UpstreamError as error:
            raise await self._failure(error, upstream.address) from None
        self._answered.add(upstream.address)
        return answer

    async def _failure(self, error: UpstreamError, address: Address, what: str = "") -> ServerError:
        if address not in self._answered:
            error = await explained(error, address, self.server.security)
        passes = isinstance(error, Unreachable | ConnectionClosed | TimedOut)
        return (ServerLost if passes else ServerError)(f"{what}{error}")

    async def aclose(self) -> None:
        """Close every connection."""
        for upstream in self._open.values():
            await upstream.aclose()
