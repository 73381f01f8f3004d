"""Holds all quotas of clients at one node, as the metadata log has them (``QuotaManagers``,
``ClientQuotaMetadataManager``).

Each broker measures its own requests, and the active controller the changes of partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.broker.quotas.client_quota_manager import ClientQuotaManager
from gateway.broker.quotas.controller_mutation_quota import (
    STRICT_SINCE,
    ControllerMutationQuota,
)
from gateway.broker.quotas.quota_limits import QuotaLimits, user_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from gateway.broker.quotas.samples import QuotaSettings
    from kwire.cluster import Delta, Image
    from kwire.cluster.image import QuotaEntity

#: Keys of quotas, in the order in which this module holds them.
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"


class ClientQuotas:
    """The quotas of clients at one node. ``clock`` gives seconds that never fall."""

    def __init__(
        self, settings: QuotaSettings, mutations: QuotaSettings, clock: Callable[[], float]
    ) -> None:
        """``mutations``: ``controller.quota.window.num`` and ``.size.seconds``."""
        self.clock = clock
        self.produce = ClientQuotaManager(settings)
        self.fetch = ClientQuotaManager(settings)
        self.request = ClientQuotaManager(settings, throttle_max_ms=settings.window_ms)
        self.mutations = ClientQuotaManager(mutations)
        #: Whether there is any quota: without one requests cost nothing.
        self.is_set = False
        self._managers: Mapping[str, ClientQuotaManager] = {
            PRODUCER_BYTE_RATE: self.produce,
            CONSUMER_BYTE_RATE: self.fetch,
            REQUEST_PERCENTAGE: self.request,
            CONTROLLER_MUTATION_RATE: self.mutations,
        }
        self._prepared: dict[str, QuotaLimits] | None = None

    def now_ms(self) -> int:
        """The moment, in ms."""
        return int(self.clock() * 1000)

    # --- the quotas of the log

    def prepare(self, delta: Delta | None, image: Image) -> None:
        """Read the quotas of another image, in the thread that loads it."""
        if delta is None:
            self._prepared = self._read(image.quotas)

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Take over the quotas of another image, None, or those that ``delta`` has changed
        (``gateway.sources.metadata_loader.Publisher``).
        """
        if delta is None:
            limits, self._prepared = self._prepared, None
            for name, read in (limits or self._read(image.quotas)).items():
                self._managers[name].limits = read
        elif delta.changes("quotas"):
            changed = delta.changed_keys("quotas")
            _set(
                {name: manager.limits for name, manager in self._managers.items()},
                ((entity, image.quotas.get(entity, {})) for entity in changed),
            )
        else:
            return
        self.is_set = any(manager.limits for manager in self._managers.values())

    def _read(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> dict[str, QuotaLimits]:
        limits = {name: QuotaLimits() for name in self._managers}
        _set(limits, quotas.items())
        return limits

    # --- requests

    def of_mutations(
        self, principal: str, client_id: str | None, api_key: int, version: int
    ) -> ControllerMutationQuota | None:
        """Return the quota of a request that may change partitions; None where there is none."""
        since = STRICT_SINCE.get(api_key)
        if since is None or not self.mutations.limits:
            return None
        sensor = self.mutations.sensor(user_of(principal), client_id or "", self.now_ms())
        if sensor is None:
            return None
        return ControllerMutationQuota(sensor, self.now_ms, is_strict=version >= since)


def _set(
    limits: Mapping[str, QuotaLimits],
    quotas: Iterable[tuple[QuotaEntity, Mapping[str, float]]],
) -> None:
    for entity, values in quotas:
        for name, of_name in limits.items():
            of_name.set(entity, values.get(name))
