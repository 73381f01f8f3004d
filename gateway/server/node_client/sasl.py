"""Authenticates a link to a Kafka node by SASL, in the order of Java's ``SaslClientAuthenticator``.

The order is ApiVersions v0, SaslHandshake, and SaslAuthenticate until the mechanism is complete.
Re-authentication on the same connection (KIP-368) begins with the handshake.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import trio

from gateway.base.error_text import error_with_code
from gateway.security.sasl_client import SaslError, sasl_client
from gateway.server.node_client.errors import AuthenticationFailed, UnsupportedByPeer, quoted
from gateway.server.node_client.versions import ask_versions
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.security.sasl_client import SaslSettings
    from gateway.server.node_client.link import Link

_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
#: After version 1 the tokens are sent in SaslAuthenticate requests (KIP-152); after version 0 they
#: would follow without a Kafka header.
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_NEWEST: Final = 2
#: Messages that a server may send in one authentication; no mechanism here needs more than two.
_MESSAGES_MAX: Final = 4
_NONCE_BYTES: Final = 24


class Authentication:
    """Authenticates a link as the user of ``settings``, as often as :meth:`run` is called."""

    def __init__(self, link: Link, settings: SaslSettings, client_id: str) -> None:
        self._link = link
        self._settings = settings
        self._client_id = client_id
        self._version: int | None = None

    async def run(self) -> float | None:
        """Authenticate. Returns the lifetime of the session, s; None if it lives as long as the
        connection.

        Raises AuthenticationFailed, UnsupportedByPeer, and what a link raises.
        """
        if self._version is None:
            self._version = await self._learn_version()
        await self._shake_hands()
        client = sasl_client(self._settings, secrets.token_urlsafe(_NONCE_BYTES))
        token: bytes | None = client.first()
        for _ in range(_MESSAGES_MAX):
            if token is None:
                break
            answer = await self._authenticate(token)
            try:
                # A derived key takes tens of ms of the processor.
                token = await trio.to_thread.run_sync(client.respond, answer.auth_bytes)
            except SaslError as error:
                raise self._failed(str(error), "is this the node that it should be?") from None
        if not client.complete:
            raise self._failed("the node goes on after the end of the authentication")
        lifetime_ms: int = answer.session_lifetime_ms
        return lifetime_ms / 1000 if lifetime_ms > 0 else None

    async def _learn_version(self) -> int:
        offer = await ask_versions(self._link, None, newest=0)
        offered = offer.versions.get(_AUTHENTICATE, range(0))
        if _HANDSHAKE_VERSION not in offer.versions.get(_HANDSHAKE, range(0)) or not offered:
            raise UnsupportedByPeer(
                self._link.who,
                "it offers no SaslHandshake v1 and SaslAuthenticate",
                "is it a Kafka node?",
            )
        return min(offered[-1], _AUTHENTICATE_NEWEST)

    async def _shake_hands(self) -> None:
        mechanism = self._settings.mechanism
        answer = await self._link.ask(
            SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION, self._client_id
        )
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = quoted(", ".join(answer.mechanisms[:10])) or "nothing"
            raise self._failed(
                f"the node does not have {mechanism}, it offers {offered}",
                "set sasl.mechanism to one of these",
            )
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._failed(
                "this listener wants no SASL",
                "set security.protocol to PLAINTEXT or SSL, or use another listener",
            )
        if answer.error_code:
            raise self._failed(
                f"the node refused the SASL handshake with {error_with_code(answer.error_code)}"
            )

    async def _authenticate(self, token: bytes) -> Any:
        assert self._version is not None
        answer = await self._link.ask(
            SaslAuthenticateRequest(auth_bytes=token), self._version, self._client_id
        )
        if answer.error_code:
            said = f", saying {quoted(answer.error_message)}" if answer.error_message else ""
            advice = (
                "check username and password in sasl.jaas.config, and that the user has "
                "credentials for this mechanism"
            )
            raise self._failed(
                f"the node refused the user with {error_with_code(answer.error_code)}{said}", advice
            )
        return answer

    def _failed(self, what: str, advice: str = "") -> AuthenticationFailed:
        return AuthenticationFailed(self._link.who, f"not authenticated: {what}", advice)
