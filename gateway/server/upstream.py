"""A connection to a Kafka controller or broker, as a client of it: connected, secured,
authenticated, versions known.

It does not know what is asked over it, and never connects again by itself: after any error but
UnsupportedByPeer the connection is closed, and who wants another one makes one.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import trio

from gateway.address import Address
from gateway.server.logs import escape
from gateway.server.tls import secure
from gateway.server.upstream_errors import (
    ConnectionClosed,
    TimedOut,
    Unreachable,
    UnsupportedByPeer,
    short,
)
from gateway.server.upstream_link import Link
from gateway.server.upstream_sasl import Authentication
from gateway.server.upstream_versions import Offer, ask_versions
from kwire.registry import request_type

if TYPE_CHECKING:
    from gateway.security.client_properties import ClientSecurity
    from kwire.message import Message

_T = TypeVar("_T")

_MIB: Final = 1024 * 1024
#: A session is renewed when so much of its life is over: Java's clients do it between 85 and 95 %.
_RENEW_AFTER: Final = 0.85
#: Largest answer before we know whom we talk to, bytes: as much as Kafka takes of its clients then.
_SETUP_ANSWER_MAX: Final = 512 * 1024


class Upstream:
    """One connection, ready for requests. Made by :meth:`connect`, closed by :meth:`aclose`."""

    def __init__(
        self, address: Address, link: Link, offer: Offer, client_id: str, session: _Session | None
    ) -> None:
        """Around a link over which everything before the first request was said; ``session``: what
        must be renewed in time.
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
        response_max_bytes: int = 64 * _MIB,
    ) -> Self:
        """TCP, TLS, SASL and ApiVersions within ``timeout_s``, as ``security`` says.

        Answers above ``response_max_bytes`` are refused. Raises Unreachable, TlsFailed,
        AuthenticationFailed, ConnectionClosed, TimedOut, BadAnswer.
        """
        who = f"{escape(str(address))} ({security})"  # a host that a peer named may hold anything
        setup = _Setup(
            address, security, who, client_id, min(_SETUP_ANSWER_MAX, response_max_bytes)
        )
        try:
            with trio.move_on_after(timeout_s):
                link, offer, session = await setup.run()
                link.limit_answers(response_max_bytes)
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
        """False once anything went wrong or :meth:`aclose` was called; that the peer is gone shows
        at the next call.
        """
        return self._link.is_open

    @property
    def versions(self) -> Mapping[int, range]:
        """What the node offers, by api key."""
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
        """The metadata offset that :attr:`finalized_features` are of; -1 if the node does not know."""
        return self._offer.finalized_features_epoch

    def common_version(self, api_key: int, ours: range) -> int:
        """The newest version that the node offers and ``ours`` holds. Raises UnsupportedByPeer; the
        connection stays open.
        """
        theirs = self.versions.get(api_key, range(0))
        low, high = (
            max(min(theirs, default=0), min(ours, default=0)),
            min(max(theirs, default=-1), max(ours, default=-1)),
        )
        if low <= high:
            return high
        name = request_type(api_key).NAME.removesuffix("Request")
        offered = f"offers {name} {_span(theirs)}" if theirs else f"does not offer {name}"
        raise UnsupportedByPeer(
            self._link.who,
            f"it {offered}, {_span(ours)} is needed",
            "is this a controller's listener where one is wanted, and Kafka new enough?",
        )

    async def call(self, request: Message, version: int, *, timeout_s: float) -> Any:
        """The answer to ``request``, decoded at ``version``. Callers take turns; ``timeout_s``
        begins with the turn.

        Error codes inside the answer are the caller's affair. Raises ConnectionClosed, TimedOut,
        TlsFailed, BadAnswer, AuthenticationFailed; EncodeError and UnsupportedVersion for a request
        that cannot be written. When it is cancelled in the middle, the connection is closed.
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
                # ApiVersions is answered by every listener; whoever wants SASL then closes, without
                # a word.
                raise ConnectionClosed(
                    error.who, error.what, "does this listener want SASL (security.protocol)?"
                ) from None
            raise
        self._answered = True
        return answer

    async def aclose(self) -> None:
        """Close the connection, whatever state it is in. May be called again."""
        await self._link.close()


class _Session:
    """An authentication that the node may let live for a while only
    (``connections.max.reauth.ms``).

    It is renewed on the same connection before a request (KIP-368). If nothing is asked for longer
    than it lives, no harm is done: the node then closes the connection at the first request that is
    not a new authentication.
    """

    def __init__(self, authentication: Authentication, link: Link) -> None:
        self._authentication = authentication
        self._link = link
        self._due = math.inf

    async def begin(self) -> None:
        """Authenticate. Raises as Authentication.run; the link is closed then."""
        began = trio.current_time()
        try:
            lifetime_s = await self._authentication.run()
        except BaseException:
            await self._link.close("the authentication failed")
            raise
        self._due = math.inf if lifetime_s is None else began + lifetime_s * _RENEW_AFTER

    async def renew_if_due(self) -> None:
        """Before each request."""
        if trio.current_time() >= self._due:
            await self.begin()


class _Setup:
    """Everything before the first request, step by step; ``waiting_for`` says which one it is at."""

    def __init__(
        self,
        address: Address,
        security: ClientSecurity,
        who: str,
        client_id: str,
        answer_max_bytes: int,
    ) -> None:
        self.waiting_for = "no TCP connection"
        self._address = address
        self._security = security
        self._who = who
        self._client_id = client_id
        self._answer_max_bytes = answer_max_bytes
        self._stream: trio.abc.Stream | None = None
        self._link: Link | None = None

    async def run(self) -> tuple[Link, Offer, _Session | None]:
        """TCP, TLS, SASL, ApiVersions."""
        self._stream = stream = await _open_tcp(self._address, self._who)
        if self._security.tls is not None:
            self.waiting_for = "no end of the TLS handshake"
            self._stream = await secure(stream, self._security.tls, self._address[0], self._who)
        self._link = link = Link(self._stream, self._who, answer_max_bytes=self._answer_max_bytes)
        session = None
        if self._security.sasl is not None:
            self.waiting_for = "no end of the authentication"
            session = _Session(Authentication(link, self._security.sasl, self._client_id), link)
            await self._first(session.begin)
        self.waiting_for = "no answer to ApiVersions"
        return link, await self._first(lambda: ask_versions(link, self._client_id)), session

    async def _first(self, talk: Callable[[], Awaitable[_T]]) -> _T:
        """With TLS 1.3 a node looks at our certificate only after the handshake; not all of them
        say what they think of it.
        """
        try:
            return await talk()
        except ConnectionClosed as error:
            if self._security.tls is None or error.advice:
                raise
            advice = "does this listener want a client certificate, or another one (ssl.keystore.location)?"
            raise ConnectionClosed(error.who, error.what, advice) from None

    async def undo(self) -> None:
        """Close what was opened."""
        if self._link is not None:
            await self._link.close()
        elif self._stream is not None:
            await trio.aclose_forcefully(self._stream)


async def _open_tcp(address: Address, who: str) -> trio.SocketStream:
    host, port = address
    try:
        return await trio.open_tcp_stream(host, port)
    except (
        OSError,
        ValueError,
        OverflowError,
    ) as error:  # a name that cannot be one, a port that is none
        raise Unreachable(
            who, f"cannot connect: {_reasons(error)}", "is the address right, and the node up?"
        ) from None


def _reasons(error: BaseException) -> str:
    """Why connecting failed: trio tries every address of a name, and puts what it got in a group."""
    cause = error.__cause__
    if isinstance(cause, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_reasons(one) for one in cause.exceptions))
    error = cause or error
    if isinstance(error, OSError) and error.errno and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or short(error)


def _span(versions: range) -> str:
    return f"{min(versions)}" if len(versions) == 1 else f"{min(versions)}-{max(versions)}"
