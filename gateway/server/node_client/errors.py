"""Errors of a connection to a Kafka node: one class for each cause.

The text of an error names the peer (host:port, protocol, principal), the failure and what to do
next. It never contains a secret.
"""

from __future__ import annotations

from typing import ClassVar

from gateway.base.error_text import ERROR_MAX, TEXT_MAX, escape


class UpstreamError(Exception):
    """A request to a node failed, or its response cannot be used. The connection is closed, except
    after UnsupportedByPeer.

    ``kind``: the cause in one word, for counters. ``who``: the node as ``host:port (protocol,
    principal)``. ``what`` happened, and ``advice`` on what to do.
    """

    kind: ClassVar[str] = "failed"

    def __init__(self, who: str, what: str, advice: str = "") -> None:
        self.who = who
        self.what = what
        self.advice = advice
        super().__init__(f"{who}: {what}" + (f"; {advice}" if advice else ""))

    def __reduce__(self) -> tuple[type[UpstreamError], tuple[str, str, str]]:
        return type(self), (self.who, self.what, self.advice)


class Unreachable(UpstreamError):
    """No TCP connection: a wrong address, no listener, no route."""

    kind = "unreachable"


class Refused(Unreachable):
    """The host refused the connection (ECONNREFUSED): no process listens at the address."""


class TlsFailed(UpstreamError):
    """The TLS handshake failed: one side does not trust the other's certificate, or the listener
    does not speak TLS.
    """

    kind = "tls"


class AuthenticationFailed(UpstreamError):
    """The node refused the principal or the mechanism, or failed to prove that it knows the
    password (RFC 5802: the server signature of SCRAM).
    """

    kind = "authentication"


class ConnectionClosed(UpstreamError):
    """The node closed the connection, or it was closed on this side before the request."""

    kind = "closed"


class TimedOut(UpstreamError):
    """The node did not answer in time."""

    kind = "timeout"


class BadAnswer(UpstreamError):
    """The response violates the protocol: it is too large, undecodable, or of another request."""

    kind = "undecodable"


class UnsupportedByPeer(UpstreamError):
    """The node offers no version of the API that kwire supports."""

    kind = "unsupported_version"


class NotAController(UnsupportedByPeer):
    """The node is a broker where a controller is wanted."""


def quoted(text: str | None, limit: int = TEXT_MAX) -> str:
    """Quote a peer's text for an error message, on one line and cut; empty if there is none."""
    return f"{escape(text, limit=limit)!r}" if text else ""


def short(error: BaseException) -> str:
    """The text of a library's exception on one line, cut; its class if the text is empty."""
    return escape(str(error), limit=ERROR_MAX) or type(error).__name__
