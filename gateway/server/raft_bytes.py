"""Puts the bytes of log and snapshots where the core of a quorum left room for them. Knows no rule
of the quorum.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gateway.ports import FileRecords, OffsetOutOfRange
from gateway.quorum.effects import LogRange, SnapshotRange
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.quorum.effects import Reply
    from gateway.sources.quorum_log import QuorumLog


def fill(reply: Reply, log: QuorumLog) -> None:
    """Complete the message of ``reply``. Raises OSError, LogError.

    What was cleaned a moment ago is not there any more, which the core is only about to hear: who
    asked for it gets an answer without records, and is sent to a snapshot when it asks again.
    """
    message: Any = reply.message
    if isinstance(reply.read, LogRange):
        with contextlib.suppress(OffsetOutOfRange):
            message.responses[0].partitions[0].records = FileRecords(log.read_range(reply.read))
    elif reply.read is not None:
        _fill_snapshot(message.topics[0].partitions[0], reply.read, log)


def _fill_snapshot(partition: Any, wanted: SnapshotRange, log: QuorumLog) -> None:
    try:
        size, data = log.read_snapshot(wanted)
    except FileNotFoundError:
        partition.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return
    if wanted.position >= size:
        partition.error_code = ErrorCode.POSITION_OUT_OF_RANGE
    else:
        partition.size, partition.unaligned_records = size, data
