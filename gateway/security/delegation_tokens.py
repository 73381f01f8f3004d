"""Delegation tokens (KIP-48): what proves that one is ours. Pure; it knows no request.

A token's password is not kept anywhere: it is the keyed hash of the token's id, which whoever has the key can work out again.
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
    """The key of hashes in the security settings of a node; None where there are no tokens. As in Kafka empty is none."""
    text = security.get(SECRET_KEY, "")
    return Secret(text) if text else None


def token_hmac(secret: Secret, token_id: str) -> bytes:
    """What a client authenticates with, and names the token by when it is to be renewed (``createHmac``)."""
    return hmac.digest(secret.reveal().encode(), token_id.encode(), _ALGORITHM)


def token_principals(token: DelegationTokenRecord) -> frozenset[str]:
    """Whose a ``DelegationTokenRecord`` is: owner, who asked for it, who may renew it (``TokenInformation.ownerOrRenewer``)."""
    return frozenset((token.owner, token.requester, *token.renewers))
