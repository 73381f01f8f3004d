"""DescribeDelegationToken (key 41): returns the tokens in the log that the client may describe,
with their HMACs (KIP-48).

They are those of this node's own cluster, or of the observed one if this node has its secret key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.delegation_tokens import REQUESTER_VERSION
from gateway.handlers.catalog import cluster_image
from gateway.handlers.delegation_tokens import may_ask_for_tokens
from gateway.ports.streamed import WHOLE_MAX, filled, respond
from gateway.security.delegation_tokens import token_hmac, token_principals, token_secret
from kwire.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.streamed import Streamed
    from kwire.message import Message
    from kwire.messages.delegation_token_record import DelegationTokenRecord
    from kwire.messages.describe_delegation_token_request import DescribeDelegationTokenRequest

API_KEY: Final = ApiKey.DESCRIBE_DELEGATION_TOKEN
VERSIONS: Final = range(1, 4)

#: A token takes as long as so many elements of other responses: two calls of the authorizer, and
#: one HMAC.
_WEIGHT: Final = 5


def handle(request: DescribeDelegationTokenRequest, context: Context) -> Message | Streamed:
    """Return the tokens of the requested owners; null requests those of all owners.

    DELEGATION_TOKEN_AUTH_DISABLED without the cluster's secret key.
    """
    if not may_ask_for_tokens(context):
        return DescribeDelegationTokenResponse(
            error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        )
    secret, image = token_secret(context.gateway.config.security), cluster_image(context)
    if secret is None or image is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = frozenset(
            f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners
        )
    tokens = list(image.tokens.values())
    size = _WEIGHT * len(tokens)
    if size <= WHOLE_MAX:  # few tokens may have many renewers
        size += sum(len(token.renewers) for token in tokens)
    elements = (
        _described(token, token_hmac(secret, token.token_id), context.version)
        if _is_requested(token, owners) and _may_describe(token, context)
        else None
        for token in tokens
    )
    return respond(DescribeDelegationTokenResponse(), "tokens", elements, size)


def _is_requested(token: DelegationTokenRecord, owners: frozenset[str] | None) -> bool:
    return owners is None or any(one in owners for one in token_principals(token))


def _may_describe(token: DelegationTokenRecord, context: Context) -> bool:
    peer, authorizer = context.peer, context.gateway.authorizer
    return (
        peer.principal in token_principals(token)
        or authorizer.allows(
            peer.principal, peer.host, "DESCRIBE", "DELEGATION_TOKEN", token.token_id
        )
        or authorizer.allows(peer.principal, peer.host, "DESCRIBE_TOKENS", "USER", token.owner)
    )


def _described(
    token: DelegationTokenRecord, password: bytes, version: int
) -> DescribedDelegationToken | Streamed:
    owner_type, _, owner_name = token.owner.partition(":")
    renewers = (renewer.partition(":") for renewer in token.renewers)
    described = DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=password,
    )
    if version >= REQUESTER_VERSION:
        kind, _, name = token.requester.partition(":")
        described.token_requester_principal_type = kind
        described.token_requester_principal_name = name
    people = (
        DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
        for kind, _, name in renewers
    )
    return filled(described, "renewers", people)
