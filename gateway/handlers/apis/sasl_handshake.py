"""SaslHandshake (key 17): selects the SASL mechanism of a connection (KIP-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.ports.pending_response import PendingResponse
from gateway.security.sasl_session import WrongMoment
from kwire.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.sasl_handshake_request import SaslHandshakeRequest

API_KEY: Final = ApiKey.SASL_HANDSHAKE
VERSIONS: Final = range(2)


def handle(
    request: SaslHandshakeRequest, context: Context
) -> SaslHandshakeResponse | PendingResponse:
    """Return the enabled mechanisms. ILLEGAL_SASL_STATE on a listener without SASL, and after
    authentication.

    The response to a mechanism that is not enabled is delayed like that to a failed authentication.
    """
    session = context.sasl
    if session is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    try:
        is_offered = session.handshake(request.mechanism, context.version, context.now)
    except WrongMoment:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    if is_offered:
        return SaslHandshakeResponse(mechanisms=session.mechanisms)
    refused = SaslHandshakeResponse(
        error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=session.mechanisms
    )
    context.notes["failed"] = "a mechanism that is not offered"
    delay_ms = context.gateway.config.connection_failed_authentication_delay_ms
    return PendingResponse(deadline=context.now + delay_ms / 1000, expire=lambda: refused)
