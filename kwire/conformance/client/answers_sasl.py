"""Answers SaslHandshake and SaslAuthenticate of one connection, with the mechanism PLAIN.

Any name and password are right: the rules are about the order of requests. A client that sends no
SaslHandshake is served as on a PLAINTEXT listener.
"""

from __future__ import annotations

import time
from typing import Any, Final

from kwire.conformance.client.answers import made
from kwire.conformance.client.state import State
from kwire.conformance.client.traffic import Seen
from kwire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.protocol import ApiKey, ErrorCode

#: APIs that a connection may use after the end of its session (``SocketServer``, KIP-368).
_ALWAYS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


class SaslState:
    """The session of one connection."""

    def __init__(self) -> None:
        self._ends_at: float | None = None

    def has_ended(self, seen: Seen, state: State) -> bool:
        """Whether the session was over when the request arrived, so that a broker closes."""
        if seen.api in _ALWAYS or self._ends_at is None:
            return False
        return state.session_ms > 0 and seen.at > self._ends_at

    def answer(self, state: State, seen: Seen, error: int, mechanisms: tuple[str, ...]) -> Any:
        """Answer one of the two requests."""
        if seen.api == ApiKey.SASL_HANDSHAKE:
            if not error and seen.request.mechanism not in mechanisms:
                error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return SaslHandshakeResponse(error_code=error, mechanisms=list(mechanisms))
        if not error and state.session_ms:
            self._ends_at = time.monotonic() + state.session_ms / 1000
        return made(
            SaslAuthenticateResponse, seen.version, error_code=error,
            error_message="refused" if error else None, auth_bytes=b"",
            session_lifetime_ms=0 if error else state.session_ms,
        )  # fmt: skip
