"""What the handlers of delegation tokens share: who may ask for them at all (``allowTokenRequests``; KIP-48)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.handlers.context import Context

_ANONYMOUS: Final = "User:ANONYMOUS"


def may_ask_for_tokens(context: Context) -> bool:
    """Is it known who asks, and by no token? One that was made for a token would outlive it.

    What a broker forwards was let through there.
    """
    peer = context.peer
    if peer.token_authenticated:
        return False
    if peer.forwarded:
        return True
    protocol = context.gateway.endpoint(peer.listener).security_protocol
    return protocol.startswith("SASL_") or (protocol == "SSL" and peer.principal != _ANONYMOUS)
