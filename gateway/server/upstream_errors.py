"""What may go wrong between us and the Kafka node that we are a client of: one class a cause, one
sentence each.

Every sentence says with whom (host:port, protocol, principal), what was wrong, and what to do next;
never a secret.
"""

from __future__ import annotations

from typing import ClassVar

from gateway.server.logs import ERROR_MAX, TEXT_MAX, escape


class UpstreamError(Exception):
    """A node could not be asked, or its answer not be used. But for UnsupportedByPeer the
    connection, if any, is closed.

    ``kind``: the cause in one word, for counters. ``who``: the node as ``host:port (protocol,
    principal)``.
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
    """No TCP connection: a wrong address, nobody listening, no route."""

    kind = "unreachable"


class TlsFailed(UpstreamError):
    """The TLS handshake failed: their certificate was not trusted, ours was not, or the listener
    speaks no TLS.
    """

    kind = "tls"


class AuthenticationFailed(UpstreamError):
    """The node refused the principal or the mechanism, or did not prove that it knows the password
    itself.
    """

    kind = "authentication"


class ConnectionClosed(UpstreamError):
    """The node closed the connection, or it was closed on our side before."""

    kind = "closed"


class TimedOut(UpstreamError):
    """The node did not answer in time."""

    kind = "timeout"


class BadAnswer(UpstreamError):
    """The answer does not follow the protocol: too large, undecodable, or not the one that was
    asked for.
    """

    kind = "undecodable"


class UnsupportedByPeer(UpstreamError):
    """The node offers no version of an API that we speak."""

    kind = "unsupported_version"


def quoted(text: str | None, limit: int = TEXT_MAX) -> str:
    """A peer's words in a sentence of ours: on one line, cut, in quotes; nothing if it had none."""
    return f"{escape(text, limit=limit)!r}" if text else ""


def short(error: BaseException) -> str:
    """What an exception of a library says, on one line, cut; its class if it says nothing."""
    return escape(str(error), limit=ERROR_MAX) or type(error).__name__
