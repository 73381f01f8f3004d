"""Limits the partitions that a client has created and deleted (KIP-599;
``ControllerMutationQuotaManager``).

A strict quota refuses what exceeds it, where the version of the request knows the error; a
permissive one lets it pass and throttles the client.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.broker.quotas.client_quota_manager import Sensor

#: The first version of an API that knows THROTTLING_QUOTA_EXCEEDED.
STRICT_SINCE: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}


class QuotaExceeded(Exception):
    """The strict quota of the client does not allow the change now."""


class ControllerMutationQuota:
    """The quota of one request. ``now_ms`` is the clock."""

    __slots__ = ("_is_strict", "_now_ms", "_recorded_ms", "_sensor", "_throttle_ms")

    def __init__(self, sensor: Sensor, now_ms: Callable[[], int], *, is_strict: bool) -> None:
        self._sensor = sensor
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._recorded_ms = 0

    def record(self, partitions: int) -> None:
        """Count the partitions of a change. Raises QuotaExceeded: nothing is counted then.

        As in Kafka a change is allowed while any token is left, however large it is.
        """
        now_ms, sensor = self._now_ms(), self._sensor
        if self._is_strict:
            left = sensor.bucket.tokens(sensor.limit, now_ms)
            if left < 0:
                self._throttle(left, now_ms)
                raise QuotaExceeded
            self._count(partitions, now_ms)
            return
        left = self._count(partitions, now_ms)
        if left < 0:
            self._throttle(left, now_ms)

    def throttle_ms(self) -> int:
        """For how long the client is to be throttled from now on, ms."""
        return max(0, self._throttle_ms - (self._now_ms() - self._recorded_ms))

    def _count(self, partitions: int, now_ms: int) -> float:
        self._sensor.rate.record(partitions, now_ms)
        return self._sensor.bucket.take(partitions, self._sensor.limit, now_ms)

    def _throttle(self, tokens: float, now_ms: int) -> None:
        self._throttle_ms = math.floor(-tokens / self._sensor.limit * 1000 + 0.5)
        self._recorded_ms = now_ms
