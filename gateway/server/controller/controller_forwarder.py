"""Forwards requests to the active controller: over one connection, with one request in flight.

A client's request goes in an Envelope (KIP-590), and the controller authorizes the client. A node's
own request, such as ControllerRegistration, goes without one. Follows Kafka's ``ForwardingManager``
and ``NodeToControllerChannelManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.handlers.apis.envelope import API_KEY as ENVELOPE
from gateway.handlers.apis.envelope import FORWARDABLE
from gateway.ports.services import THIS_NODE
from gateway.server.controller.envelopes import (
    ForwardingMetrics,
    ForwardingRefused,
    unwrap,
    wrap,
)
from gateway.server.node_client.errors import TimedOut, UpstreamError
from gateway.server.node_client.peer import Peer
from gateway.server.node_client.settings import ConnectionSettings
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.base.address import Address
    from gateway.ports.services import Requester
    from gateway.server.node_client.connection import Upstream
    from kwire.message import Message

#: Timeout of a request, s: as long as an admin client waits (``default.api.timeout.ms``).
_TIMEOUT_S: Final = 60.0
#: Timeout for the response of a node that has lost leadership, s: it may be on its way.
_GRACE_S: Final = 1.0
#: Maximum idle time of a connection that is used again, s. The peer closes an idle connection
#: (``connections.max.idle.ms``), and a request sent at that moment has an unknown outcome.
_IDLE_S: Final = 60.0
_ENVELOPE_VERSION: Final = 0


class ForwardFailed(Exception):
    """The request certainly did not reach an active controller: it can be forwarded again."""


class NotController(ForwardFailed):
    """The node is not the active controller, and has not carried out the request."""


class _Channel:
    """The connection to one address, with the request in flight and those that wait."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.peer = Peer(settings)
        self.turn = trio.Lock()
        self.waiting: set[trio.CancelScope] = set()
        self.used_at = trio.current_time()


class ControllerForwarder:
    """Forwards requests to the addresses that its caller names, one channel for each."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.measures = ForwardingMetrics()
        self._settings = settings
        self._channels: dict[Address, _Channel] = {}

    async def ask(
        self,
        address: Address,
        request: Message,
        version: int,
        requester: Requester,
        is_wanted: Callable[[], bool],
    ) -> Any:
        """Forward a request of ``requester`` and return its response.

        ``is_wanted`` is called before the request is sent, which may be long after this call.
        Raises ForwardFailed if the request was not carried out; UnsupportedByPeer if the leader
        does not support it; ForwardingRefused if the leader does not accept it from this node;
        another UpstreamError if its outcome is unknown.
        """
        self.measures.begins(requester.client_id)
        try:
            return await self._ask(address, request, version, requester, is_wanted)
        finally:
            self.measures.ends(requester.client_id)

    async def _ask(
        self,
        address: Address,
        request: Message,
        version: int,
        requester: Requester,
        is_wanted: Callable[[], bool],
    ) -> Any:
        began = trio.current_time()
        channel = self._channels.setdefault(address, _Channel(self._settings))
        sent = False
        with trio.move_on_after(_TIMEOUT_S) as scope:
            channel.waiting.add(scope)
            try:
                async with channel.turn:
                    # Checked again here: the client may have given up while the request waited.
                    if not is_wanted():
                        raise ForwardFailed("the client does not wait any longer")
                    upstream = await self._connected(channel, address, request, version, requester)
                    self.measures.queue.add(trio.current_time() - began)
                    sent = True
                    return await self._in_flight(upstream, request, version, requester)
            finally:
                channel.waiting.discard(scope)
                channel.used_at = trio.current_time()
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
        """Send the request, in an Envelope if it is a client's, and return its response."""
        if not _is_enveloped(request, requester):
            return await upstream.call(request, version, timeout_s=_TIMEOUT_S)
        assert request.API_KEY is not None, "only requests are forwarded"
        envelope = wrap(request, version, requester)
        self.measures.forwarded += 1
        left = trio.current_time()
        answer = await upstream.call(envelope, _ENVELOPE_VERSION, timeout_s=_TIMEOUT_S)
        self.measures.remote.add(trio.current_time() - left)
        try:
            return unwrap(request.API_KEY, version, answer, str(upstream.address))
        except ForwardingRefused as refused:
            if refused.error == ErrorCode.NOT_CONTROLLER:
                raise NotController(
                    f"{upstream.address}: it is not the active controller"
                ) from None
            self.measures.unauthorized += refused.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise

    async def leader_is(self, address: Address | None) -> None:
        """Shorten the deadline of requests to other nodes than the leader at ``address``, and close
        unused connections to them. ``address`` is None while no leader is known.
        """
        now = trio.current_time()
        for at, channel in list(self._channels.items()):
            if at == address:
                continue
            if not channel.waiting:
                del self._channels[at]
                await channel.peer.close()
            elif address is not None:
                for scope in channel.waiting:
                    scope.deadline = min(scope.deadline, now + _GRACE_S)

    async def close(self) -> None:
        """Close all connections."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.peer.close()

    async def _connected(
        self,
        channel: _Channel,
        address: Address,
        request: Message,
        version: int,
        requester: Requester,
    ) -> Upstream:
        """The connection to a node that supports ``request``. Raises ForwardFailed,
        UnsupportedByPeer.
        """
        assert request.API_KEY is not None, "only requests are forwarded"
        if trio.current_time() - channel.used_at > _IDLE_S:
            await channel.peer.close()
        # Connecting may fail without harm: the request was not sent, so it can be forwarded again.
        try:
            upstream = await channel.peer.at(address)
        except UpstreamError as error:
            raise ForwardFailed(str(error)) from None
        upstream.common_version(request.API_KEY, range(version, version + 1))
        if _is_enveloped(request, requester):
            upstream.common_version(ENVELOPE, range(_ENVELOPE_VERSION, _ENVELOPE_VERSION + 1))
        return upstream


def _is_enveloped(request: Message, requester: Requester) -> bool:
    """Whether the request goes in an Envelope: those of this node itself do not."""
    return request.API_KEY in FORWARDABLE and requester is not THIS_NODE
