"""Passes requests for the active controller on to it: over one connection, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.server.quorum_peer import Connecting, Peer
from gateway.server.upstream_errors import TimedOut

if TYPE_CHECKING:
    from gateway.address import Address
    from gateway.ports import Asker
    from kwire.message import Message

#: As long as an admin client waits for its answer (``default.api.timeout.ms``), s: who asked may give up before.
_TIMEOUT_S: Final = 60.0


class PassingOn:
    """To whoever leads at the moment."""

    def __init__(self, how: Connecting) -> None:
        self._peer = Peer(how)
        self._turn = trio.Lock()

    async def ask(self, address: Address, request: Message, version: int, asker: Asker) -> Any:
        """The leader's answer. Raises UpstreamError; Unreachable where the request was certainly not seen."""
        with trio.move_on_after(_TIMEOUT_S):
            async with self._turn:
                return await self._ask(address, request, version)
        raise TimedOut(str(address), f"no answer within {_TIMEOUT_S:g} s", "is the node stopped or overloaded?")

    async def _ask(self, address: Address, request: Message, version: int) -> Any:
        api_key = request.API_KEY
        assert api_key is not None, "only requests are passed on"
        upstream = await self._peer.at(address)
        upstream.common_version(api_key, range(version, version + 1))
        return await upstream.call(request, version, timeout_s=_TIMEOUT_S)

    async def close(self) -> None:
        """Hang up."""
        await self._peer.close()
