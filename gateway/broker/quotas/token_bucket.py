"""Allows bursts up to the quota of all windows together, and the quota on average
(``TokenBucket``; KIP-599).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.broker.quotas.samples import QuotaSettings

_MS: Final = 1000


class TokenBucket:
    """The tokens of one client. A bucket is full at first, and may be overdrawn."""

    __slots__ = ("_refilled_ms", "_settings", "_tokens")

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self._tokens: float | None = None
        self._refilled_ms = 0

    def tokens(self, quota: float, now_ms: int) -> float:
        """The tokens at ``now_ms``, where ``quota`` come in a second. Negative: overdrawn."""
        most = quota * self._settings.samples * self._settings.window_ms / _MS
        if self._tokens is None:
            self._tokens = most
        else:
            come = quota * (now_ms - self._refilled_ms) / _MS
            self._tokens = min(most, self._tokens + come)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, permits: float, quota: float, now_ms: int) -> float:
        """Take ``permits`` tokens and return what is left."""
        self._tokens = self.tokens(quota, now_ms) - permits
        return self._tokens
