"""Counts what is appended to the partitions of a topic, and to all (``BrokerTopicMetrics``).

As in Kafka, batches of coordinators on this node and markers count, and so does a batch that its
producer sent again. It knows no rates: who reads the counts derives them.
"""

from __future__ import annotations


class AppendCounts:
    """The records and bytes since the start. Only the event loop counts."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0

    def add(self, messages: int, size: int) -> None:
        """A batch of ``size`` bytes was appended."""
        self.messages += messages
        self.bytes += size
