"""Counts events and durations of the core for metrics (``KafkaRaftMetrics``)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Latency:
    """Number, sum and maximum of durations in seconds."""

    count: int = 0
    total_s: float = 0.0
    max_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self.total_s += seconds
        self.max_s = max(self.max_s, seconds)


@dataclass(slots=True)
class RaftMetrics:
    """The counts of one node since its start. ``protocol_violations``: messages that were
    discarded.

    ``fetched_records`` and ``appended_records``: as a follower and as the leader, in offsets.
    """

    election: Latency = field(default_factory=Latency)
    commit: Latency = field(default_factory=Latency)
    fetched_records: int = 0
    appended_records: int = 0
    protocol_violations: int = 0
