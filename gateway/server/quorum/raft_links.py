"""Connects to the other nodes of the quorum: one connection to each, with one request in flight, as
Kafka's ``KafkaNetworkChannel``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.server.node_client.errors import ConnectionClosed, TimedOut
from gateway.server.node_client.peer import Peer
from gateway.server.node_client.settings import ConnectionSettings
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.quorum.effects import Send

#: Maximum number of connections; the one that was unused for longest is closed for a new one. Peers
#: influence the addresses, which come from the configuration, voters' records and responses.
_LINKS_MAX: Final = 64


class _Link:
    def __init__(self, settings: ConnectionSettings) -> None:
        self.peer = Peer(settings)
        self.turn = trio.Lock()


class RaftLinks:
    """Opens a connection when there is a request for its address, and keeps it."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._links: dict[Address, _Link] = {}

    async def ask(self, send: Send) -> tuple[int, Any]:
        """Send a request. Returns (version, response) within its timeout. Raises UpstreamError."""
        link = self._link(send.address)
        with trio.move_on_after(send.timeout_s):
            async with link.turn:
                await self._make_room()
                return await self._ask(link.peer, send)
        name = request_type(send.api_key).NAME.removesuffix("Request")
        text = f"no answer to {name} within {send.timeout_s:g} s"
        raise TimedOut(str(send.address), text, "is the node stopped or overloaded?")

    async def close(self) -> None:
        """Close all connections."""
        links, self._links = self._links, {}
        for link in links.values():
            await link.peer.close()

    async def _ask(self, peer: Peer, send: Send) -> tuple[int, Any]:
        """Send a request over ``peer``, once more if it had closed an idle connection."""
        while True:
            upstream, used = await peer.at(send.address), peer.used
            peer.used = True
            version = upstream.common_version(send.api_key, send.versions)
            try:
                return version, await upstream.call(
                    send.request(version), version, timeout_s=send.timeout_s
                )
            except ConnectionClosed:
                if not used:
                    raise

    def _link(self, address: Address) -> _Link:
        link = self._links.pop(address, None) or _Link(self._settings)
        self._links[address] = link  # at the end: the dict is in order of use
        return link

    async def _make_room(self) -> None:
        """Close the least recently used connection without a request, if there are too many.

        The caller holds the turn of its own link, which is therefore never closed.
        """
        if len(self._links) > _LINKS_MAX:
            oldest = next(
                (one for one, other in self._links.items() if not other.turn.locked()), None
            )
            if oldest is not None:
                await self._links.pop(oldest).peer.close()
