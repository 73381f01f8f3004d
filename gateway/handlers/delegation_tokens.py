"""Decides whether a connection may use the APIs of delegation tokens
(``KafkaApis.allowTokenRequests``; KIP-48).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.handlers.context import Context

_ANONYMOUS: Final = "User:ANONYMOUS"


def may_ask_for_tokens(context: Context) -> bool:
    """Whether the client is authenticated, and not with a token: it could create a token that
    outlives its own.

    If a broker forwards the request, that broker has checked the authentication.
    """
    peer = context.peer
    if peer.token_authenticated:
        return False
    if peer.forwarder is not None:
        return True
    protocol = context.gateway.endpoint(peer.listener).security_protocol
    return protocol.startswith("SASL_") or (protocol == "SSL" and peer.principal != _ANONYMOUS)
