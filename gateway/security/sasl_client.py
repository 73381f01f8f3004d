"""The client's side of the SASL mechanisms, chosen by name. Pure: bytes in, bytes out; nothing of connections or requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.security.scram import HASHES, SaslError, ScramClient
from gateway.security.secret import Secret

__all__ = ["MECHANISMS", "PlainClient", "SaslClient", "SaslError", "SaslSettings", "ScramClient", "sasl_client"]

PLAIN: Final = "PLAIN"
#: Every mechanism there is, weakest first.
MECHANISMS: Final = (PLAIN, *HASHES)


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """Who we are: mechanism, user name, password."""

    mechanism: str
    username: str
    password: Secret


class SaslClient(Protocol):
    """One authentication with one mechanism."""

    mechanism: str
    complete: bool  #: Nothing is left that the server must prove or say.

    def first(self) -> bytes:
        """What is sent first."""

    def respond(self, message: bytes) -> bytes | None:
        """What is sent next; None: nothing, it is complete. May take tens of ms. Raises SaslError."""


class PlainClient:
    """PLAIN (RFC 4616): user name and password as they are, under no other identity than the user's own."""

    mechanism = PLAIN

    def __init__(self, username: str, password: Secret) -> None:
        self._username = username
        self._password = password
        self.complete = False

    def first(self) -> bytes:
        """The only message, with an empty authorisation id: nobody is impersonated."""
        return b"\0".join((b"", self._username.encode(), self._password.reveal().encode()))

    def respond(self, message: bytes) -> None:
        """The server says no more than that it is content. Raises SaslError if it does."""
        if message:
            raise SaslError("the server answers PLAIN with a message, there is none in PLAIN")
        self.complete = True


def sasl_client(settings: SaslSettings, nonce: str) -> SaslClient:
    """The client of ``settings.mechanism``; ``nonce`` as ScramClient wants it. Raises KeyError for another mechanism."""
    if settings.mechanism == PLAIN:
        return PlainClient(settings.username, settings.password)
    return ScramClient(settings.mechanism, settings.username, settings.password, nonce)
