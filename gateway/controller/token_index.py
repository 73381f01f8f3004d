"""Finds delegation tokens by their HMACs, which are not in the log.

A record has the id of a token. The HMAC, by which a client names the token, is computed from the id
and the cluster's secret key when a request first needs it. (Kafka's ``DelegationTokenCache``
computes the HMACs of all tokens when records are applied.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.base.slices import Slices
from gateway.security.delegation_tokens import token_hmac

if TYPE_CHECKING:
    from gateway.security.secret import Secret


class TokenIndex:
    """The tokens of one image: :meth:`add` and :meth:`remove` follow its records."""

    def __init__(self) -> None:
        self._not_computed: dict[str, None] = {}
        self._ids: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}

    def add_all(self, token_ids: Iterable[str]) -> None:
        """Add the tokens that the image has when the index is built."""
        self._not_computed.update(dict.fromkeys(token_ids))

    def add(self, token_id: str) -> None:
        """Add a token whose record was applied: a new one, or one with a new expiry."""
        # A new expiry leaves the HMAC as it is: that depends on the id and the secret.
        if token_id not in self._hmacs:
            self._not_computed[token_id] = None

    def remove(self, token_id: str) -> None:
        """Remove a token."""
        self._not_computed.pop(token_id, None)
        hmac = self._hmacs.pop(token_id, None)
        if hmac is not None:
            del self._ids[hmac]

    def find(self, secret: Secret, hmac: bytes) -> Slices[str | None]:
        """Return the id of the token with this HMAC, or None. Yields after each HMAC that it
        computes.

        Each HMAC is computed once, so repeated searches for unknown tokens cost no more than the
        first one. The newest tokens come first.
        """
        while hmac not in self._ids and self._not_computed:
            # From the end, where the newest is: a client renews a token soon after it was created.
            token_id, _ = self._not_computed.popitem()
            computed = self._hmacs[token_id] = token_hmac(secret, token_id)
            self._ids[computed] = token_id
            # One HMAC takes microseconds, but an unknown token asks for all of them.
            yield
        return self._ids.get(hmac)
