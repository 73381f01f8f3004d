"""SaslHandshake (key 17): which mechanism a client authenticates by. Only listeners with SASL have
any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.context import PendingResponse
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
    """The mechanisms on offer; ILLEGAL_SASL_STATE where none is needed (any more).

    Who wants another one waits for the answer, as who fails to authenticate does.
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
