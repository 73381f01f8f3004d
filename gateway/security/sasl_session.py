"""Tracks the authentication of one connection: which requests are allowed, and the principal. Pure.

It knows no bytes of requests. The order is Kafka's (``SaslServerAuthenticator``): optionally
ApiVersions, SaslHandshake, then tokens until the mechanism is complete. Where sessions expire
(``connections.max.reauth.ms``, KIP-368) the same connection authenticates again before that, as the
same user with the same mechanism.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gateway.security.sasl_server import SaslFailed, SaslServer
from kwire.protocol import ApiKey

_SASL_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_SASL_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
#: From this version of SaslHandshake on tokens are in SaslAuthenticate requests; before it they
#: have no header.
_WITH_HEADERS: Final = 1
#: Minimum time between two authentications of a connection, s.
_AGAIN_MIN_S: Final = 1.0


class WrongMoment(Exception):
    """The request is not allowed in this state (ILLEGAL_SASL_STATE). The text goes to the
    client.
    """


class _At(enum.Enum):
    START = enum.auto()
    VERSIONS_TOLD = enum.auto()
    TOKENS = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of a listener. ``make`` begins an authentication; a session lives
    ``max_reauth_ms``, 0: as long as its connection.
    """

    make: Callable[[], SaslServer]
    max_reauth_ms: int = 0


class SaslSession:
    """The session of one connection. ``mechanisms``: those of its listener, by name. Times are
    seconds of one monotonic clock.
    """

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = mechanisms
        self._at = _At.START
        self._name = ""
        self._server: SaslServer | None = None
        self._bare = False
        self._began = 0.0
        self._ends = float("inf")
        # Mechanism and principal of the authentication that is being renewed.
        self._before: tuple[str, str] | None = None
        #: ``User:NAME`` after the authentication.
        self.principal: str | None = None
        #: Whether a delegation token was used.
        self.token_authenticated = False

    @property
    def is_open(self) -> bool:
        """Whether the client is authenticated."""
        return self._at is _At.DONE

    @property
    def has_failed(self) -> bool:
        """Whether authentication failed, so that the connection closes after the response."""
        return self._at is _At.FAILED

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token without a header (after SaslHandshake 0)."""
        return self._bare and self._at is _At.TOKENS

    @property
    def mechanisms(self) -> list[str]:
        """The names of the offered mechanisms."""
        return list(self._mechanisms)

    def refusal(self, api_key: int, now: float) -> str | None:
        """Return why a request of ``api_key`` closes the connection now; None if it is allowed."""
        if self._at is _At.DONE:
            over = now >= self._ends and api_key != _SASL_HANDSHAKE
            return "session-expired" if over else None
        allowed = {
            _At.START: (_API_VERSIONS, _SASL_HANDSHAKE),
            _At.VERSIONS_TOLD: (_SASL_HANDSHAKE,),
            _At.TOKENS: (_SASL_AUTHENTICATE,),
            _At.FAILED: (),
        }
        return None if api_key in allowed[self._at] else "not-authenticated"

    def versions_told(self) -> None:
        """Note that ApiVersions was answered: allowed once before the end of the authentication, as
        in Kafka.
        """
        if self._at is _At.START:
            self._at = _At.VERSIONS_TOLD

    def handshake(self, mechanism: str, version: int, now: float) -> bool:
        """Begin an authentication with ``mechanism``; False, and failed, if it is not offered.

        Raises WrongMoment if the connection need not authenticate again.
        """
        if self._at is _At.DONE:
            if self._ends == float("inf") or now - self._began < _AGAIN_MIN_S:
                raise WrongMoment("SaslHandshake request received after successful authentication")
            self._before = self._name, self.principal or ""
        if mechanism not in self._mechanisms:
            self._at = _At.FAILED
            return False
        self._name, self._bare, self._began = mechanism, version < _WITH_HEADERS, now
        self._server = self._mechanisms[mechanism].make()
        self._at = _At.TOKENS
        return True

    def evaluate(self, token: bytes, now: float) -> tuple[bytes, int]:
        """Answer a token of the client: (answer, lifetime of the session in ms, 0: that of the
        connection).

        Raises SaslFailed, which ends the authentication; WrongMoment.
        """
        if self._at is not _At.TOKENS:
            raise WrongMoment("SaslAuthenticate request received after successful authentication")
        assert self._server is not None
        try:
            if self._before is not None and self._before[0] != self._name:
                raise SaslFailed(
                    f"SASL mechanism '{self._name}' requested by client is not supported for "
                    f"re-authentication of mechanism '{self._before[0]}'"
                )
            answer = self._server.evaluate(token)
            lifetime_ms = self._complete(self._server, now) if self._server.complete else 0
        except SaslFailed:
            self._at = _At.FAILED
            raise
        return answer, lifetime_ms

    def _complete(self, server: SaslServer, now: float) -> int:
        principal = f"User:{server.username}"
        if self._before is not None and self._before[1] != principal:
            raise SaslFailed("Cannot change principals during re-authentication")
        self.principal, self._at, self._server, self._before = principal, _At.DONE, None, None
        self.token_authenticated = server.token is not None
        lifetime_ms = self._mechanisms[self._name].max_reauth_ms
        if server.token is not None:
            lifetime_ms = min(lifetime_ms or server.token.remaining_ms, server.token.remaining_ms)
        self._ends = now + lifetime_ms / 1000 if lifetime_ms else float("inf")
        return lifetime_ms
