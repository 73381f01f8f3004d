"""Opens the connections of ``kwire conform``: plain, TLS, and authenticated by SASL.

The rules themselves know nothing of certificates and passwords: they get connections that are ready
for requests.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

from gateway.security.sasl_client import SaslError, sasl_client
from kwire.conformance.connection import Connection, Opener, PeerClosed, Stream, open_plain
from kwire.conformance.outcome import CheckEnd
from kwire.conformance.session import CLIENT_ID, Target
from kwire.errors import WireError
from kwire.header import decode_response_header, encode_request_header
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.messages.sasl_handshake_response import SaslHandshakeResponse
from kwire.protocol import ApiKey, error_name

if TYPE_CHECKING:
    import ssl

    from gateway.base.address import Address
    from gateway.security.client_properties import ClientSecurity
    from gateway.security.sasl_client import SaslSettings

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
_MESSAGES_MAX: Final = 4


def target_of(address: Address, security: ClientSecurity) -> Target:
    """Return the listener at ``address`` with the connections that ``security`` describes."""
    opened = open_plain(*address)
    if security.tls is not None:
        from gateway.server.node_client.tls import client_context

        opened = functools.partial(_open_tls, opened, client_context(security.tls), address.host)
    ready = opened if security.sasl is None else _authenticating(opened, security.sasl)
    return Target(str(address), ready, opened, security.tls is not None, security.sasl is not None)


def _open_tls(opened: Opener, context: ssl.SSLContext, host: str, timeout_s: float) -> Stream:
    stream: Any = opened(timeout_s)
    try:
        return context.wrap_socket(stream, server_hostname=host)
    except BaseException:
        stream.close()
        raise


def _authenticating(opened: Opener, settings: SaslSettings) -> Opener:
    def ready(timeout_s: float) -> Stream:
        deadline = time.monotonic() + timeout_s
        stream = opened(timeout_s)
        try:
            _authenticate(Connection(stream, deadline), settings)
        except PeerClosed:
            stream.close()
            raise OSError("the server closed the connection during the authentication") from None
        except (SaslError, CheckEnd, WireError) as error:
            stream.close()
            raise OSError(f"not authenticated: {error}") from None
        except BaseException:
            with contextlib.suppress(OSError):
                stream.close()
            raise
        return stream

    return ready


def _authenticate(connection: Connection, settings: SaslSettings) -> None:
    """Authenticate as ``settings`` say. Raises SaslError, and what a connection raises."""
    data = _ask(
        connection,
        ApiKey.SASL_HANDSHAKE,
        _HANDSHAKE_VERSION,
        SaslHandshakeRequest(mechanism=settings.mechanism).encode(_HANDSHAKE_VERSION),
    )
    shaken = SaslHandshakeResponse.decode(data, _HANDSHAKE_VERSION)
    if shaken.error_code:
        raise SaslError(f"the handshake is refused with {error_name(shaken.error_code)}")
    client = sasl_client(settings, secrets.token_urlsafe(24))
    token: bytes | None = client.first()
    for _ in range(_MESSAGES_MAX):
        if token is None:
            break
        request = SaslAuthenticateRequest(auth_bytes=token)
        data = _ask(
            connection,
            ApiKey.SASL_AUTHENTICATE,
            _AUTHENTICATE_VERSION,
            request.encode(_AUTHENTICATE_VERSION),
        )
        answer = SaslAuthenticateResponse.decode(data, _AUTHENTICATE_VERSION)
        if answer.error_code:
            raise SaslError(f"refused with {error_name(answer.error_code)}")
        token = client.respond(answer.auth_bytes)
    if not client.complete:
        raise SaslError("the server goes on after the end of the authentication")


def _ask(connection: Connection, api: ApiKey, version: int, body: bytes) -> bytes:
    """Send one request and return the body of its answer. It is not kept: it holds secrets."""
    connection.send_request(encode_request_header(api, version, 1, CLIENT_ID) + body)
    received = connection.receive()
    _, start = decode_response_header(api, version, received)
    return received[start:]
