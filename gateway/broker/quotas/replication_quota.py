"""Limits the bytes that this broker sends as a leader, or takes as a follower, of the replicas that
are named as throttled (``ReplicationQuotaManager``, KIP-73).

It measures and compares; who asks leaves the partition out, and never one that is in sync.
"""

from __future__ import annotations

import math
from typing import Final

from gateway.broker.quotas.samples import QuotaSettings, Samples

#: All replicas of a topic, in ``leader.replication.throttled.replicas``.
_ALL: Final = "*"


class ThrottledReplicas:
    """The partitions of a topic whose replicas at one broker are throttled."""

    __slots__ = ("_all", "_indexes")

    def __init__(self, text: str, broker_id: int) -> None:
        """``text``: ``partition:broker``, separated by commas, or ``*``, as it was checked."""
        parts = [part.strip() for part in text.split(",")]
        self._all = parts == [_ALL]
        pairs = (part.partition(":") for part in parts if part and not self._all)
        self._indexes = frozenset(
            int(index) for index, _, broker in pairs if int(broker) == broker_id
        )

    def __contains__(self, index: object) -> bool:
        return self._all or index in self._indexes


class ReplicationQuota:
    """The bytes per second of one side, ``limit``; infinity: none."""

    def __init__(self) -> None:
        self.limit = math.inf
        self._samples = Samples(QuotaSettings())

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether more was recorded than the limit allows."""
        return self.limit < math.inf and self._samples.simple_rate(now_ms) > self.limit

    def record(self, size: int, now_ms: int) -> None:
        """Count the bytes of throttled partitions."""
        self._samples.record(size, now_ms)
