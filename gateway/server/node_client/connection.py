"""Connects to a Kafka controller or broker as a client: TCP, TLS, SASL and ApiVersions.

It does not know the requests that are sent over it, and never reconnects by itself: any error but
UnsupportedByPeer closes the connection, and the caller opens another one.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import trio

from gateway.base.address import Address
from gateway.base.error_text import escape
from gateway.base.sizes import KIB, MIB
from gateway.server.node_client.errors import (
    ConnectionClosed,
    Refused,
    TimedOut,
    Unreachable,
    UnsupportedByPeer,
    short,
)
from gateway.server.node_client.link import RESPONSE_MAX_ELEMENTS, Link
from gateway.server.node_client.sasl import Authentication
from gateway.server.node_client.tls import secure
from gateway.server.node_client.versions import AdvertisedVersions, ask_versions
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.security.client_properties import ClientSecurity
    from kwire.message import Message

_T = TypeVar("_T")

#: Share of a session's lifetime after which it is renewed. Java's ``SaslClientAuthenticator`` picks
#: one between 85 and 95 %.
_RENEW_AFTER: Final = 0.85
#: Largest response before the peer has authenticated, bytes. Kafka's limit for requests in that
#: phase is the same (``sasl.server.max.receive.size``).
_SETUP_RESPONSE_MAX: Final = 512 * KIB


class Upstream:
    """One connection, ready for requests. Made by :meth:`connect`, closed by :meth:`aclose`."""

    def __init__(
        self,
        address: Address,
        link: Link,
        offer: AdvertisedVersions,
        client_id: str,
        session: _Session | None,
    ) -> None:
        """``link`` is ready for requests: TLS, SASL and ApiVersions are done. ``session`` is
        renewed before it expires.
        """
        self.address = address
        self._link = link
        self._offer = offer
        self._client_id = client_id
        self._session = session
        self._answered = False
        self._turn = trio.Lock()

    @classmethod
    async def connect(
        cls,
        address: Address,
        security: ClientSecurity,
        *,
        client_id: str,
        timeout_s: float,
        response_max_bytes: int = 64 * MIB,
        response_max_elements: int = RESPONSE_MAX_ELEMENTS,
    ) -> Self:
        """Connect within ``timeout_s``, with TLS and SASL as ``security`` says.

        Responses above ``response_max_bytes``, or with more array elements than
        ``response_max_elements``, are refused. Raises Unreachable, TlsFailed,
        AuthenticationFailed, ConnectionClosed, TimedOut, BadAnswer.
        """
        # Escaped: addresses of voters and leaders come from responses, with any text as host.
        who = f"{escape(str(address))} ({security})"
        setup = _Setup(
            address, security, who, client_id, min(_SETUP_RESPONSE_MAX, response_max_bytes)
        )
        try:
            with trio.move_on_after(timeout_s):
                link, offer, session = await setup.run()
                link.limit_responses(response_max_bytes, response_max_elements)
                return cls(address, link, offer, client_id, session)
        except BaseException:
            await setup.undo()
            raise
        await setup.undo()
        raise TimedOut(
            who,
            f"{setup.waiting_for} within {timeout_s:g} s",
            "is the node stopped, overloaded or behind a firewall?",
        )

    def __repr__(self) -> str:
        return f"<Upstream {self._link.who}{'' if self.is_open else ', closed'}>"

    @property
    def is_open(self) -> bool:
        """False after an error or :meth:`aclose`. A connection that the peer closed is still open
        here until the next call.
        """
        return self._link.is_open

    @property
    def versions(self) -> Mapping[int, range]:
        """The versions that the node offers, by API key."""
        return self._offer.versions

    @property
    def supported_features(self) -> Mapping[str, range]:
        """Levels that the node supports, by feature (KIP-584)."""
        return self._offer.supported_features

    @property
    def finalized_features(self) -> Mapping[str, int]:
        """Levels that the cluster uses, by feature, as of :attr:`finalized_features_epoch`."""
        return self._offer.finalized_features

    @property
    def finalized_features_epoch(self) -> int:
        """The metadata offset of :attr:`finalized_features`; -1 if the node does not know it."""
        return self._offer.finalized_features_epoch

    def common_version(self, api_key: int, supported: range) -> int:
        """The newest version that both the node and ``supported`` have.

        Raises UnsupportedByPeer; the connection stays open.
        """
        offered = self.versions.get(api_key, range(0))
        low, high = (
            max(min(offered, default=0), min(supported, default=0)),
            min(max(offered, default=-1), max(supported, default=-1)),
        )
        if low <= high:
            return high
        name = request_type(api_key).NAME.removesuffix("Request")
        offer = f"offers {name} {_span(offered)}" if offered else f"does not offer {name}"
        raise UnsupportedByPeer(
            self._link.who,
            f"it {offer}, {_span(supported)} is needed",
            "is this a controller's listener where one is wanted, and Kafka new enough?",
        )

    async def call(self, request: Message, version: int, *, timeout_s: float) -> Any:
        """Send ``request`` and return its response, decoded at ``version``.

        One request is in flight at a time; ``timeout_s`` begins when those before it are done. The
        caller checks the error codes in the response. A cancelled call closes the connection.
        Raises ConnectionClosed, TimedOut, TlsFailed, BadAnswer, AuthenticationFailed; EncodeError
        and UnsupportedVersion for a request that cannot be encoded.
        """
        async with self._turn:
            with trio.move_on_after(timeout_s):
                return await self._ask(request, version)
        raise TimedOut(
            self._link.who, f"no answer to {request.NAME} v{version} within {timeout_s:g} s"
        )

    async def _ask(self, request: Message, version: int) -> Any:
        if self._session is not None:
            await self._session.renew_if_due()
        try:
            answer = await self._link.ask(request, version, self._client_id)
        except ConnectionClosed as error:
            if self._session is None and not self._answered and not error.advice:
                # Every listener answers ApiVersions; one that requires SASL closes the connection
                # at the next request, without an error.
                raise ConnectionClosed(
                    error.who, error.what, "does this listener want SASL (security.protocol)?"
                ) from None
            raise
        self._answered = True
        return answer

    async def aclose(self) -> None:
        """Close the connection, in any state. May be called again."""
        await self._link.close()


class _Session:
    """An authentication whose lifetime the node may limit (``connections.max.reauth.ms``).

    It is renewed on the same connection before a request (KIP-368), and not by a timer: the node
    closes an expired connection only at the first request that is not a new authentication.
    """

    def __init__(self, authentication: Authentication, link: Link) -> None:
        self._authentication = authentication
        self._link = link
        self._due = math.inf

    async def begin(self) -> None:
        """Authenticate. Raises as Authentication.run, and then closes the link."""
        began = trio.current_time()
        try:
            lifetime_s = await self._authentication.run()
        except BaseException:
            await self._link.close("the authentication failed")
            raise
        self._due = math.inf if lifetime_s is None else began + lifetime_s * _RENEW_AFTER

    async def renew_if_due(self) -> None:
        """Authenticate again if the session is about to expire. Called before each request."""
        if trio.current_time() >= self._due:
            await self.begin()


class _Setup:
    """The steps before the first request. ``waiting_for`` names the current one, for the error of a
    timeout.
    """

    def __init__(
        self,
        address: Address,
        security: ClientSecurity,
        who: str,
        client_id: str,
        response_max_bytes: int,
    ) -> None:
        self.waiting_for = "no TCP connection"
        self._address = address
        self._security = security
        self._who = who
        self._client_id = client_id
        self._response_max_bytes = response_max_bytes
        self._stream: trio.abc.Stream | None = None
        self._link: Link | None = None

    async def run(self) -> tuple[Link, AdvertisedVersions, _Session | None]:
        """Perform all steps. Returns the link, the node's versions, and the session if there is
        SASL.
        """
        self._stream = stream = await _open_tcp(self._address, self._who)
        if self._security.tls is not None:
            self.waiting_for = "no end of the TLS handshake"
            self._stream = await secure(stream, self._security.tls, self._address[0], self._who)
        self._link = link = Link(
            self._stream, self._who, response_max_bytes=self._response_max_bytes
        )
        session = None
        if self._security.sasl is not None:
            self.waiting_for = "no end of the authentication"
            session = _Session(Authentication(link, self._security.sasl, self._client_id), link)
            await self._first(session.begin)
        self.waiting_for = "no answer to ApiVersions"
        return link, await self._first(lambda: ask_versions(link, self._client_id)), session

    async def _first(self, exchange: Callable[[], Awaitable[_T]]) -> _T:
        """Perform the first exchange after the TLS handshake.

        A TLS listener may close the connection of a client without TLS, and does not say why.
        With TLS 1.3 the node checks the client's certificate after the client has completed the
        handshake (RFC 8446 4.4), and some nodes close the connection without an alert.
        """
        try:
            return await exchange()
        except ConnectionClosed as error:
            if error.advice:
                raise
            advice = (
                "does this listener speak TLS (security.protocol)?"
                if self._security.tls is None
                else "does this listener want a client certificate, or another one "
                "(ssl.keystore.location)?"
            )
            raise ConnectionClosed(error.who, error.what, advice) from None

    async def undo(self) -> None:
        """Close the link or stream, if there is one."""
        if self._link is not None:
            await self._link.close()
        elif self._stream is not None:
            await trio.aclose_forcefully(self._stream)


async def _open_tcp(address: Address, who: str) -> trio.SocketStream:
    host, port = address
    try:
        return await trio.open_tcp_stream(host, port)
    # ValueError and OverflowError: a host that is no name, a port out of range.
    except (OSError, ValueError, OverflowError) as error:
        kind = Refused if _was_refused(error) else Unreachable
        raise kind(
            who, f"cannot connect: {_reasons(error)}", "is the address right, and the node up?"
        ) from None


def _was_refused(error: BaseException) -> bool:
    """Whether every address of the host refused the connection."""
    cause = error.__cause__ or error
    if isinstance(cause, BaseExceptionGroup):
        return all(map(_was_refused, cause.exceptions))
    return isinstance(cause, ConnectionRefusedError)


def _reasons(error: BaseException) -> str:
    """The reasons why connecting failed. Trio tries every address of a name, and raises the errors
    as a group.
    """
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_reasons(one) for one in cause.exceptions))
    error = cause or error
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or short(error)


def _span(versions: range) -> str:
    return f"{min(versions)}" if len(versions) == 1 else f"{min(versions)}-{max(versions)}"
