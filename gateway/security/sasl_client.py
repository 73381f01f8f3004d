"""Implements the client's side of the SASL mechanisms. Pure: bytes in, bytes out; no connections or
requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.security.scram import HASHES, SaslError, ScramClient
from gateway.security.secret import Secret

__all__ = [
    "MECHANISMS",
    "PlainClient",
    "SaslClient",
    "SaslError",
    "SaslSettings",
    "ScramClient",
    "sasl_client",
]

PLAIN: Final = "PLAIN"
#: The supported mechanisms, weakest first.
MECHANISMS: Final = (PLAIN, *HASHES)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Mechanism, user name and password of this client. ``is_token``: they are id and password of
    a delegation token.
    """

    mechanism: str
    username: str
    password: Secret
    is_token: bool = False


class SaslClient(Protocol):
    """One authentication with one mechanism."""

    mechanism: str
    complete: bool  #: The server has nothing left to prove.

    def first(self) -> bytes:
        """Return the first message."""

    def respond(self, message: bytes) -> bytes | None:
        """Return the next message; None when complete. May take tens of ms. Raises SaslError."""


class PlainClient:
    """PLAIN (RFC 4616): user name and password in clear, without an authorization id of another
    user.
    """

    mechanism = PLAIN

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        self.complete = False

    def first(self) -> bytes:
        """Return the only message, with an empty authorization id: no user is impersonated."""
        return b"\0".join((b"", self._username.encode(), self._password.reveal().encode()))

    def respond(self, message: bytes) -> None:
        """Accept the server's empty answer. Raises SaslError for any other."""
        if message:
            raise SaslError("the server answers PLAIN with a message, there is none in PLAIN")
        self.complete = True


def sasl_client(settings: SaslSettings, nonce: str) -> SaslClient:
    """Return the client of ``settings.mechanism``; ``nonce`` as in ScramClient. Raises KeyError for
    an unknown mechanism.
    """
    if settings.mechanism == PLAIN:
        return PlainClient(settings.username, settings.password)
    return ScramClient(
        settings.mechanism,
        settings.username,
        settings.password,
        nonce,
        is_token=settings.is_token,
    )
