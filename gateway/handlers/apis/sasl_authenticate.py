"""SaslAuthenticate (key 36): exchanges the messages of a SASL mechanism (KIP-152).

After SaslHandshake version 0 a client sends the messages without a request header; the connection
wraps them into this request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.ports.pending_response import PendingResponse
from gateway.security.sasl_server import SaslFailed
from gateway.security.sasl_session import WrongMoment
from kwire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest

API_KEY: Final = ApiKey.SASL_AUTHENTICATE
VERSIONS: Final = range(3)


def handle(
    request: SaslAuthenticateRequest, context: Context
) -> SaslAuthenticateResponse | PendingResponse:
    """Return the response of the mechanism. That of a failure waits for
    ``connection.failed.authentication.delay.ms``, which slows down the guessing of passwords.
    """
    session = context.sasl
    if session is None:
        return _failure(
            ErrorCode.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
    try:
        token, lifetime_ms = session.evaluate(bytes(request.auth_bytes), context.now)
    except WrongMoment as error:
        return _failure(ErrorCode.ILLEGAL_SASL_STATE, str(error))
    except SaslFailed as error:
        context.notes["failed"] = str(error)
        failure = _failure(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
        delay_ms = context.gateway.config.connection_failed_authentication_delay_ms
        return PendingResponse(deadline=context.now + delay_ms / 1000, expire=lambda: failure)
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
    )


def _failure(error: ErrorCode, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=message, auth_bytes=b"")
