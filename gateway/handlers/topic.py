"""Checks topic names, leader epochs and the state of partitions, for several handlers.

It reads partitions through the port, and knows no request.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.topic_names import name_fault
from gateway.ports.services import PARTITION, Partition, State
from kwire.protocol import ErrorCode
from kwire.protocol.topic import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kwire.uuid import METADATA_TOPIC_ID

__all__ = [
    "INTERNAL_TOPICS",
    "METADATA_TOPIC_ID",
    "PARTITION",
    "end_of_epoch",
    "epoch_fault",
    "is_valid_name",
    "partition_fault",
]

#: The topics in which brokers keep state, which clients hide (``Topic.INTERNAL_TOPICS``).
INTERNAL_TOPICS: Final = frozenset(
    {GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC}
)
#: ``RecordBatch.NO_PARTITION_LEADER_EPOCH``: the client does not know an epoch, so none is checked.
NO_EPOCH: Final = -1


def is_valid_name(name: str) -> bool:
    """Whether a topic can have this name (``Topic.validate``): 1 to 249 characters of
    ``a-zA-Z0-9._-``, and neither ``.`` nor ``..``.
    """
    return name_fault(name) is None


def partition_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Return the error of a request for ``partition`` with ``current_leader_epoch``; NONE without.

    While the log loads it is NOT_LEADER_OR_FOLLOWER, on which every client refreshes its metadata
    and retries. From offset 0, or an empty log, a client would conclude that data was lost.
    """
    if partition.state is State.LOADING:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return epoch_fault(partition, current_leader_epoch)


def epoch_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Compare the client's epoch with that of the partition (KIP-320,
    ``Partition.checkCurrentLeaderEpoch``): FENCED_LEADER_EPOCH for an older one,
    UNKNOWN_LEADER_EPOCH for a newer one, else NONE.
    """
    if current_leader_epoch == NO_EPOCH or current_leader_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def end_of_epoch(partition: Partition, epoch: int) -> tuple[int, int]:
    """Return (epoch, its end offset) for the largest epoch up to ``epoch``
    (``LeaderEpochFileCache.endOffsetFor``).

    An epoch newer than the current one has (-1, -1), as has no epoch. One older than all known
    epochs, a negative one too, has itself and the log start, where the oldest known epoch begins.
    """
    if epoch == NO_EPOCH or epoch > partition.leader_epoch:
        return -1, -1
    found, end = partition.end_offset_for_epoch(epoch)
    return (epoch, partition.log_start_offset) if found < 0 else (found, end)
