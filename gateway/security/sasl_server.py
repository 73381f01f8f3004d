"""Implements the server's side of SASL: the interface of a mechanism, and PLAIN. Pure: no
connections or requests.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.security.secret import Secret

PLAIN: Final = "PLAIN"


class SaslFailed(Exception):
    """The client failed to authenticate. The text goes to the client: it reveals nothing about
    users.
    """


class InvalidCredentials(SaslFailed):
    """The one error for every failure whose reason would reveal something about users."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(
            "Authentication failed during authentication due to invalid credentials "
            f"with SASL mechanism {mechanism}"
        )


@dataclass(frozen=True, slots=True)
class TokenUse:
    """A delegation token was used in place of a password (KIP-48); it is valid for ``remaining_ms``
    more.
    """

    remaining_ms: int


class SaslServer(Protocol):
    """One authentication with one mechanism."""

    mechanism: str
    complete: bool  #: ``username`` is authenticated.
    username: str
    token: TokenUse | None  #: the delegation token, if one was used

    def evaluate(self, message: bytes) -> bytes:
        """Return the answer to a message of the client, maybe empty. Raises SaslFailed."""


class PlainServer:
    """PLAIN (RFC 4616) with the passwords of a JAAS configuration. Source:
    ``PlainServerCallbackHandler``.
    """

    mechanism = PLAIN

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords
        self.complete = False
        self.username = ""
        self.token: TokenUse | None = None

    def evaluate(self, message: bytes) -> bytes:
        """Check the client's only message; return an empty answer. Raises SaslFailed.

        An authorization id other than the user's is refused (CVE-2017-12610).
        """
        parts = message.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise InvalidCredentials(PLAIN)
        authorization_id, name, password = parts
        expected = self._passwords.get(_text(name))
        # An unknown user takes as long as a wrong password, so that the time reveals no users.
        known = password if expected is None else expected.reveal().encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(known, password) or expected is None:
            raise SaslFailed("Authentication failed: Invalid username or password")
        if authorization_id not in (b"", name):
            raise SaslFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.username, self.complete = _text(name), True
        return b""


def _text(name: bytes) -> str:
    """Decode as Java does: invalid UTF-8 becomes replacement characters, which no user name has."""
    return name.decode("utf-8", "replace")
