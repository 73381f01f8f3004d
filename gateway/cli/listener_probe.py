"""Finds out which security protocol a listener speaks, after a connection to it failed, and says
which one to set.

It connects once without TLS and once with it, asks for the versions and for the SASL mechanisms,
and sends nothing secret: it does not check the certificate, and does not authenticate.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import trio

from gateway.base.error_text import escape
from gateway.base.sizes import MIB
from gateway.server.node_client.errors import (
    AuthenticationFailed,
    BadAnswer,
    ConnectionClosed,
    TlsFailed,
    UpstreamError,
    quoted,
)
from gateway.server.node_client.link import Link
from gateway.server.node_client.versions import ask_versions
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.security.client_properties import ClientSecurity

#: How long each of the two connections may take, s.
_PROBE_S: Final = 3.0
_HANDSHAKE_VERSION: Final = 1
_MECHANISMS_SHOWN: Final = 10


class _Spoken:
    """The protocol of a listener, as far as it is known."""

    def __init__(self) -> None:
        self.tls: bool | None = None  #: None: neither with TLS nor without it
        self.mechanisms: list[str] | None = None  #: None: no SASL

    @property
    def protocol(self) -> str:
        """Its ``security.protocol``."""
        plain = "SSL" if self.tls else "PLAINTEXT"
        return plain if self.mechanisms is None else f"SASL_{plain}"


async def explained(
    error: UpstreamError, address: Address, security: ClientSecurity
) -> UpstreamError:
    """Return the error of a connection to ``address``; one that names the listener's protocol if
    that is not the one of ``security``.
    """
    if not isinstance(error, TlsFailed | ConnectionClosed | BadAnswer):
        return error
    spoken = _Spoken()
    with trio.move_on_after(2 * _PROBE_S):
        await _probe(address, spoken, tls=False)
        if spoken.tls is None:
            await _probe(address, spoken, tls=True)
    if spoken.tls is None or spoken.protocol == security.protocol:
        return error
    if spoken.tls and security.tls is not None and spoken.mechanisms is None:
        # The client's certificate, or the node's, is the matter.
        return error
    kind = TlsFailed if spoken.tls != (security.tls is not None) else AuthenticationFailed
    return kind(
        error.who,
        f"this listener speaks {_named(spoken)}; this client is set to {security.protocol}",
        f"set security.protocol={spoken.protocol} in the file of --command-config"
        f"{_with(spoken, security)}",
    )


def _named(spoken: _Spoken) -> str:
    parts = ["TLS" if spoken.tls else "no TLS"]
    if spoken.mechanisms is not None:
        parts.append("wants SASL")
    return " and ".join(parts)


def _with(spoken: _Spoken, security: ClientSecurity) -> str:
    """Return the keys that go with the protocol, of those that the client does not have yet."""
    more = []
    if spoken.tls and security.tls is None:
        more.append("ssl.truststore.location (and ssl.truststore.type)")
    if spoken.mechanisms is not None and security.sasl is None:
        offered = quoted(", ".join(spoken.mechanisms[:_MECHANISMS_SHOWN]))
        more.append(f"sasl.mechanism (it offers {offered}) and sasl.jaas.config")
    return f", with {', '.join(more)}" if more else ""


async def _probe(address: Address, spoken: _Spoken, *, tls: bool) -> None:
    """Fill ``spoken`` if the listener answers with or without TLS; else leave it as it is."""
    with trio.move_on_after(_PROBE_S):
        try:
            stream: trio.abc.Stream = await trio.open_tcp_stream(*address)
        except OSError:
            return
        async with stream:
            try:
                if tls:
                    stream = secured = trio.SSLStream(stream, _context(), https_compatible=True)
                    await secured.do_handshake()
                    spoken.tls = True
                link = Link(stream, escape(str(address)) or "", response_max_bytes=MIB)
                await ask_versions(link, None)
                spoken.tls = tls
                answer = await link.ask(
                    SaslHandshakeRequest(mechanism="PLAIN"), _HANDSHAKE_VERSION, None
                )
            except (UpstreamError, trio.BrokenResourceError):
                return
            if answer.error_code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM):
                spoken.mechanisms = list(answer.mechanisms)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
