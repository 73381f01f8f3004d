"""Shares checks of partitions: may it be served, where does an epoch end, is a topic name valid.

It reads the partition through the port and knows no request.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.topic_names import name_fault
from gateway.ports import PARTITION, TOPIC_NAME, Partition, State
from kwire.protocol import ErrorCode
from kwire.uuid import METADATA_TOPIC_ID

__all__ = [
    "INTERNAL_TOPICS",
    "METADATA_TOPIC_ID",
    "PARTITION",
    "TOPIC_NAME",
    "end_of_epoch",
    "epoch_fault",
    "is_valid_name",
    "partition_fault",
]

#: The topics in which brokers keep state, which clients hide (``Topic.INTERNAL_TOPICS``).
INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)
#: ``RecordBatch.NO_PARTITION_LEADER_EPOCH``: the client does not know, or does not ask.
NO_EPOCH: Final = -1


def is_valid_name(name: str) -> bool:
    """Apply Kafka's rule for topic names (``Topic.validate``): 1 to 249 of ``a-zA-Z0-9._-``, and
    neither ``.`` nor ``..``.
    """
    return name_fault(name) is None


def partition_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Return the error against serving ``partition`` to a client that knows
    ``current_leader_epoch``; NONE if there is none.

    While the source loads there is no leader: NOT_LEADER_OR_FOLLOWER, on which every client
    refreshes its metadata and retries. A client would believe offset 0 or an empty log.
    """
    if partition.state is State.LOADING:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return epoch_fault(partition, current_leader_epoch)


def epoch_fault(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """KIP-320: the client's epoch must be the one in Metadata
    (``Partition.checkCurrentLeaderEpoch``).
    """
    if current_leader_epoch == NO_EPOCH or current_leader_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def end_of_epoch(partition: Partition, epoch: int) -> tuple[int, int]:
    """Return (epoch found, its end offset) as Kafka's epoch cache does
    (``LeaderEpochFileCache.endOffsetFor``).

    An epoch newer than every known one gives (-1, -1); an older one gives itself and the log start,
    where the oldest known epoch begins: a consumer at that offset has lost nothing.
    """
    if epoch < 0 or epoch > partition.leader_epoch:
        return -1, -1
    found, end = partition.end_offset_for_epoch(epoch)
    return (epoch, partition.log_start_offset) if found < 0 else (found, end)
