"""Counts what is appended to the partitions of a topic and read from them, and the same of all
(``BrokerTopicMetrics``).

As in Kafka, batches of coordinators on this node and markers count, and so does a batch that its
producer sent again. It knows no rates: who reads the counts derives them.
"""

from __future__ import annotations

from typing import Final

from kwire.protocol import ErrorCode

#: Refusals that say nothing about the broker (``ReplicaManager.appendRecordsToLeader``).
_EXPECTED: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)


class AppendCounts:
    """The records, bytes and requests since the start. Only the event loop counts."""

    __slots__ = (
        "bytes",
        "bytes_out",
        "failed_produces",
        "fetches",
        "messages",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.bytes_out = 0  #: of records in responses to clients
        self.replication_bytes_out = 0  #: of records in responses to followers
        self.produces = 0  #: partitions in Produce requests
        self.failed_produces = 0  #: batches that were refused for another reason than the expected
        self.fetches = 0  #: partitions in responses to Fetch

    def add(self, messages: int, size: int) -> None:
        """A batch of ``size`` bytes was appended."""
        self.messages += messages
        self.bytes += size

    def refused(self, error: ErrorCode) -> None:
        """A batch for a partition that this node leads was refused with ``error``, before it was in
        the log.
        """
        self.failed_produces += error not in _EXPECTED

    def fetched(self, size: int, *, of_follower: bool) -> None:
        """A response to Fetch has ``size`` bytes of records of a partition."""
        self.fetches += 1
        if of_follower:
            self.replication_bytes_out += size
        else:
            self.bytes_out += size
