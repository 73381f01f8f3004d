"""Passes requests for the active controller on to it: over one connection, one after the other.

What clients may ask of any node goes in an Envelope, and is carried out as theirs; what nodes ask
for themselves goes bare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.handlers.envelope import API_KEY as ENVELOPE
from gateway.handlers.envelope import FORWARDABLE
from gateway.server.controller.envelopes import (
    ForwardingMeasures,
    ForwardingRefused,
    put_in,
    take_out,
)
from gateway.server.quorum_peer import Connecting, Peer
from gateway.server.upstream_errors import TimedOut, UpstreamError
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.address import Address
    from gateway.ports import Requester
    from gateway.server.upstream import Upstream
    from kwire.message import Message

#: As long as an admin client waits for its answer (``default.api.timeout.ms``), s: who asked may
#: give up before.
_TIMEOUT_S: Final = 60.0
#: How long the answer of one who does not lead any more is waited for, s: it may just have been
#: sent.
_GRACE_S: Final = 1.0
#: A connection on which nothing was asked for so long is not used again, s: the other side closes
#: it some time, without a word, and what was asked then would have an unknown outcome.
_IDLE_S: Final = 60.0
_ENVELOPE_VERSION: Final = 0


class ForwardFailed(Exception):
    """The request was certainly not seen by the one it was for: it can be passed on again. The text
    says why.
    """


class NotController(ForwardFailed):
    """It does not lead any more, and has done nothing of it."""


class _Line:
    """To one address: who has the turn, and all who wait."""

    def __init__(self, how: Connecting) -> None:
        self.peer = Peer(how)
        self.turn = trio.Lock()
        self.waiting: set[trio.CancelScope] = set()
        self.used_at = trio.current_time()


class ControllerForwarder:
    """To whoever leads at the moment."""

    def __init__(self, how: Connecting) -> None:
        self.measures = ForwardingMeasures()
        self._how = how
        self._lines: dict[Address, _Line] = {}

    async def ask(
        self,
        address: Address,
        request: Message,
        version: int,
        requester: Requester,
        wanted: Callable[[], bool],
    ) -> Any:
        """The leader's answer to ``requester``; ``wanted`` is asked before the request leaves,
        which may be long after.

        Raises NotPassedOn; UnsupportedByPeer where the leader does not know such requests;
        ForwardingRefused where it does not want them of this node; another UpstreamError where
        nobody knows whether it was carried out.
        """
        self.measures.begins(requester.client_id)
        try:
            return await self._ask(address, request, version, requester, wanted)
        finally:
            self.measures.ends(requester.client_id)

    async def _ask(
        self,
        address: Address,
        request: Message,
        version: int,
        requester: Requester,
        wanted: Callable[[], bool],
    ) -> Any:
        began = trio.current_time()
        line = self._lines.setdefault(address, _Line(self._how))
        sent = False
        with trio.move_on_after(_TIMEOUT_S) as scope:
            line.waiting.add(scope)
            try:
                async with line.turn:
                    if not wanted():
                        raise ForwardFailed("nobody waits for the answer any more")
                    upstream = await self._connected(line, address, request, version)
                    self.measures.queue.add(trio.current_time() - began)
                    sent = True
                    return await self._in_flight(upstream, request, version, requester)
            finally:
                line.waiting.discard(scope)
                line.used_at = trio.current_time()
        if not sent:
            raise ForwardFailed(f"{address}: it was not this request's turn in time")
        raise TimedOut(
            str(address),
            "no answer in time, or it does not lead any more",
            "is the node stopped or overloaded?",
        )

    async def _in_flight(
        self, upstream: Upstream, request: Message, version: int, requester: Requester
    ) -> Any:
        """Bare, or in an Envelope and out of it."""
        if request.API_KEY not in FORWARDABLE:
            return await upstream.call(request, version, timeout_s=_TIMEOUT_S)
        envelope = put_in(request, version, requester)
        self.measures.forwarded += 1
        left = trio.current_time()
        answer = await upstream.call(envelope, _ENVELOPE_VERSION, timeout_s=_TIMEOUT_S)
        self.measures.remote.add(trio.current_time() - left)
        try:
            return take_out(request.API_KEY, version, answer, str(upstream.address))
        except ForwardingRefused as refused:
            if refused.error == ErrorCode.NOT_CONTROLLER:
                raise NotController(
                    f"{upstream.address}: it is not the active controller"
                ) from None
            self.measures.unauthorized += refused.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise

    async def leader_is(self, address: Address | None) -> None:
        """Who waits for the answer of another one waits in vain, soon; connections that nobody
        needs are closed.
        """
        now = trio.current_time()
        for at, line in list(self._lines.items()):
            if at == address:
                continue
            if not line.waiting:
                del self._lines[at]
                await line.peer.close()
            elif address is not None:
                for scope in line.waiting:
                    scope.deadline = min(scope.deadline, now + _GRACE_S)

    async def close(self) -> None:
        """Hang up."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            await line.peer.close()

    async def _connected(
        self, line: _Line, address: Address, request: Message, version: int
    ) -> Upstream:
        """The connection, to one who can be asked this. Raises NotPassedOn, UnsupportedByPeer."""
        assert request.API_KEY is not None, "only requests are passed on"
        if trio.current_time() - line.used_at > _IDLE_S:
            await line.peer.close()
        try:
            upstream = await line.peer.at(address)
        except UpstreamError as error:
            raise ForwardFailed(str(error)) from None
        upstream.common_version(request.API_KEY, range(version, version + 1))
        if request.API_KEY in FORWARDABLE:
            upstream.common_version(ENVELOPE, range(_ENVELOPE_VERSION, _ENVELOPE_VERSION + 1))
        return upstream
