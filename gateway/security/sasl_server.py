"""The server's side of SASL: what a mechanism is, and PLAIN. Pure: bytes in, bytes out; it knows no connection and no request."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.security.secret import Secret

PLAIN: Final = "PLAIN"


class SaslFailed(Exception):
    """The client is not who it says. The text is for its eyes: it tells nothing about users."""


class InvalidCredentials(SaslFailed):
    """What every failure is called whose reason would tell something."""

    def __init__(self, mechanism: str) -> None:
        super().__init__(
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )


@dataclass(frozen=True, slots=True)
class TokenUse:
    """A delegation token in place of a password (KIP-48): valid for so many ms more."""

    remaining_ms: int


class SaslServer(Protocol):
    """One authentication with one mechanism."""

    mechanism: str
    complete: bool  #: ``username`` is proved.
    username: str
    token: TokenUse | None  #: by a delegation token, where it is one

    def evaluate(self, message: bytes) -> bytes:
        """The answer to a message of the client, maybe empty. Raises SaslFailed."""


class PlainServer:
    """PLAIN (RFC 4616) against the passwords of a JAAS configuration, as ``PlainServerCallbackHandler`` knows them."""

    mechanism = PLAIN

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords
        self.complete = False
        self.username = ""
        self.token: TokenUse | None = None

    def evaluate(self, message: bytes) -> bytes:
        """The client's only message; the answer is empty. Raises SaslFailed.

        Whoever asks for another authorisation id than the user's is refused (CVE-2017-12610).
        """
        parts = message.split(b"\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise InvalidCredentials(PLAIN)
        authorization_id, name, password = parts
        expected = self._passwords.get(_text(name))
        # An unknown user takes as long as a wrong password.
        known = password if expected is None else expected.reveal().encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(known, password) or expected is None:
            raise SaslFailed("Authentication failed: Invalid username or password")
        if authorization_id not in (b"", name):
            raise SaslFailed("Authentication failed: Client requested an authorization id that is different from username")
        self.username, self.complete = _text(name), True
        return b""


def _text(name: bytes) -> str:
    """As Java reads it: what is no UTF-8 becomes a replacement character, and the name of nobody."""
    return name.decode("utf-8", "replace")
