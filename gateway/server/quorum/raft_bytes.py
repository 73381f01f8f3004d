"""Fills the record bytes of log and snapshots into responses that the raft core has made.

The core decides which bytes a response gets and never reads a file; this module reads them and
knows no rule of the quorum.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gateway.ports.services import FileRecords, OffsetOutOfRange
from gateway.quorum.effects import LogRange, SnapshotRange
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.quorum.effects import Reply
    from gateway.sources.quorum_log import QuorumLog


def fill(reply: Reply, log: QuorumLog) -> None:
    """Fill in the message of ``reply``. Raises OSError, LogError.

    The log may have been cleaned after the core made the reply. The follower then gets no records,
    and its next Fetch, which the core answers knowing of the cleaning, names a snapshot.
    """
    message: Any = reply.message
    if isinstance(reply.read, LogRange):
        with contextlib.suppress(OffsetOutOfRange):
            message.responses[0].partitions[0].records = FileRecords(log.read_range(reply.read))
    elif reply.read is not None:
        _fill_snapshot(message.topics[0].partitions[0], reply.read, log)


def refuse(reply: Reply) -> None:
    """Make the message of ``reply`` the error of an observer whose files cannot be read."""
    message: Any = reply.message
    topics = message.responses if isinstance(reply.read, LogRange) else message.topics
    topics[0].partitions[0].error_code = ErrorCode.KAFKA_STORAGE_ERROR


def _fill_snapshot(partition: Any, part: SnapshotRange, log: QuorumLog) -> None:
    try:
        size, data = log.read_snapshot(part)
    except FileNotFoundError:
        partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return
    if part.position >= size:
        partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
    else:
        partition.size, partition.unaligned_records = size, data
