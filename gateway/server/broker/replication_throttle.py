"""Knows the replication quota of this broker as a leader or as a follower, and the replicas that it
is for, from the metadata log (KIP-73, ``QuotaFactory.QuotaManagers``, ``TopicConfigHandler``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from gateway.broker.quotas.replication_quota import ReplicationQuota, ThrottledReplicas
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    from kwire.cluster import Delta, Image

_LONG_MAX: Final = 2**63 - 1


class ReplicationThrottle:
    """The throttle of one ``side``: ``leader`` or ``follower``."""

    def __init__(self, side: str, node_id: int) -> None:
        self._rate_key = f"{side}.replication.throttled.rate"
        self._replicas_key = f"{side}.replication.throttled.replicas"
        self._node_id = node_id
        self._quota = ReplicationQuota()
        self._image: Image | None = None
        self._replicas: dict[str, ThrottledReplicas] = {}  # of the topics that were asked for

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Hear of changes to the image (``gateway.sources.metadata_loader.Publisher``)."""
        self._image = image
        if delta is None or delta.changes("configs"):
            self._replicas = {}
            self._quota.limit = self._limit(image)

    def _limit(self, image: Image) -> float:
        for broker in (str(self._node_id), ""):
            text = image.configs.get((BROKER_RESOURCE, broker), {}).get(self._rate_key)
            # Kafka checks the value where an administrator sets it, other controllers may not.
            if text is not None and text.strip().isdecimal():
                limit = int(text)
                return limit if limit < _LONG_MAX else math.inf
        return math.inf

    @property
    def is_limited(self) -> bool:
        """Whether there is a quota."""
        return self._quota.limit < math.inf

    @property
    def is_exceeded(self) -> bool:
        """Whether throttled replicas have to wait now."""
        return self._quota.is_exceeded(_now_ms())

    def has(self, topic: str, index: int) -> bool:
        """Whether the replica of a partition is throttled."""
        found = self._replicas.get(topic)
        if found is None:
            configs = {} if self._image is None else self._image.configs
            text = configs.get((TOPIC_RESOURCE, topic), {}).get(self._replicas_key) or ""
            found = self._replicas[topic] = ThrottledReplicas(text, self._node_id)
        return index in found

    def record(self, topic: str, index: int, size: int) -> None:
        """Count the records of a partition, if it is throttled."""
        if self.is_limited and size and self.has(topic, index):
            self._quota.record(size, _now_ms())


def _now_ms() -> int:
    return int(trio.current_time() * 1000)
