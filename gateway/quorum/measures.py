"""Counts and times for metrics (``KafkaRaftMetrics``). Knows nothing of what they are of."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Latency:
    """Of things that took time: how many, how long in all, the longest. Seconds."""

    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)


@dataclass(slots=True)
class Measures:
    """Of one node since its birth. ``protocol_violations``: messages that were not used.

    ``fetched_records`` and ``appended_records``: as follower, and as leader; counted in offsets.
    """

    election: Latency = field(default_factory=Latency)
    commit: Latency = field(default_factory=Latency)
    fetched_records: int = 0
    appended_records: int = 0
    protocol_violations: int = 0
