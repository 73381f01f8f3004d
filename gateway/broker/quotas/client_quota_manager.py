"""Measures clients against a quota of one kind, and says for how long they are throttled
(``ClientQuotaManager``, ``ClientRequestQuotaManager``, ``ControllerMutationQuotaManager``).

A client without a quota is not measured. Memory is bounded: measurements end that were not used for
an hour, and the oldest ones of more than ``SENSORS_MAX``, because clients choose their ids.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.broker.quotas.quota_limits import Group, QuotaLimits
from gateway.broker.quotas.samples import QuotaSettings, Samples
from gateway.broker.quotas.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

#: ``ClientQuotaManager.InactiveSensorExpirationTimeSeconds``.
IDLE_MS: Final = 3_600_000
SENSORS_MAX: Final = 10_000
#: The largest throttle time that a response can name, ms.
_THROTTLE_MAX_MS: Final = 2**31 - 1
#: Windows of the mean throttle time: those of a metric of Kafka without settings of its own.
_THROTTLE_TIMES: Final = QuotaSettings(samples=2, window_ms=30_000)


class Sensor:
    """The measurements of one group of clients."""

    __slots__ = ("bucket", "limit", "rate", "throttle_times", "used_ms")

    def __init__(self, settings: QuotaSettings) -> None:
        self.rate = Samples(settings)
        self.bucket = TokenBucket(settings)
        self.throttle_times = Samples(_THROTTLE_TIMES)
        self.limit = math.inf
        self.used_ms = 0


class ClientQuotaManager:
    """One kind of quota. ``throttle_max_ms``: no client is throttled longer by one request."""

    def __init__(self, settings: QuotaSettings, *, throttle_max_ms: int = _THROTTLE_MAX_MS) -> None:
        self.limits = QuotaLimits()
        self.settings = settings
        self.throttled = 0  #: requests that were throttled
        self.throttled_ms = 0  #: sum of their throttle times
        self._throttle_max_ms = throttle_max_ms
        self._sensors: dict[Group, Sensor] = {}  # the one that was used last is last

    def __len__(self) -> int:
        return len(self._sensors)

    def sensors(self) -> Iterator[tuple[Group, Sensor]]:
        """All groups that are measured."""
        return iter(self._sensors.items())

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count ``value`` and return for how long the client is throttled, ms: so long that its
        rate is that of its quota then. 0 within the quota, and without one.
        """
        found = self.sensor(user, client_id, now_ms)
        if found is None:
            return 0
        found.rate.record(value, now_ms)
        rate = found.rate.rate(now_ms)
        if rate <= found.limit:
            return 0
        late_ms = (rate - found.limit) / found.limit * found.rate.measured_ms(now_ms)
        return min(_rounded(late_ms), self._throttle_max_ms)

    def record_only(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """Count ``value`` for later requests. A negative one takes a value back."""
        found = self.sensor(user, client_id, now_ms)
        if found is not None:
            found.rate.record(value, now_ms)

    def most_at_once(self, user: str, client_id: str) -> float:
        """The largest value that is within the quota of a client that was idle; without a quota
        infinity.
        """
        found = self.limits.find(user, client_id)
        if found is None:
            return math.inf
        return found[1] * (self.settings.samples - 1) * self.settings.window_ms / 1000

    def is_throttled(self, user: str, client_id: str, throttle_ms: int, now_ms: int) -> None:
        """Note for the metrics that a client is throttled by this quota."""
        self.throttled += 1
        self.throttled_ms += throttle_ms
        found = self.sensor(user, client_id, now_ms)
        if found is not None:
            found.throttle_times.record(throttle_ms, now_ms)

    def sensor(self, user: str, client_id: str, now_ms: int) -> Sensor | None:
        """Return the measurements of a client with its quota as of now; None without a quota."""
        quota = self.limits.find(user, client_id)
        if quota is None:
            return None
        group, limit = quota
        found = self._sensors.pop(group, None)
        if found is None:
            self._expire(now_ms)
            found = Sensor(self.settings)
        self._sensors[group] = found
        found.limit, found.used_ms = limit, now_ms
        return found

    def _expire(self, now_ms: int) -> None:
        """End measurements that were not used for long, and make space for one."""
        while self._sensors:
            group, oldest = next(iter(self._sensors.items()))
            if len(self._sensors) < SENSORS_MAX and now_ms - oldest.used_ms < IDLE_MS:
                return
            del self._sensors[group]


def _rounded(number: float) -> int:
    """Round as Java's ``Math.round``."""
    return math.floor(number + 0.5)
