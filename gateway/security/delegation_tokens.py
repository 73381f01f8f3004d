"""Computes and verifies delegation tokens (KIP-48). Pure; it knows no request.

The password of a token is stored nowhere: it is the HMAC of the token's id, which every node with
the secret key can compute. Source: ``DelegationTokenManager``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gateway.security.secret import Secret

if TYPE_CHECKING:
    from kwire.messages.delegation_token_record import DelegationTokenRecord

#: The configuration key of the secret, the same on all nodes of a cluster.
SECRET_KEY: Final = "delegation.token.secret.key"
_ALGORITHM: Final = "sha512"


def token_secret(security: Mapping[str, str]) -> Secret | None:
    """Return the HMAC key from a node's security settings; None if tokens are disabled. As in Kafka
    an empty key is none.
    """
    text = security.get(SECRET_KEY, "")
    return Secret(text) if text else None


def token_hmac(secret: Secret, token_id: str) -> bytes:
    """Return the HMAC with which a client authenticates and names the token for a renewal
    (``createHmac``).
    """
    return hmac.digest(secret.reveal().encode(), token_id.encode(), _ALGORITHM)


def token_principals(token: DelegationTokenRecord) -> tuple[str, ...]:
    """Return owner, requester and renewers of a token (``TokenInformation.ownerOrRenewer``)."""
    return (token.owner, token.requester, *token.renewers)
