"""Reads a leader's responses without trusting them: finds the partition, and checks batches.

A response that breaks a rule raises :class:`InvalidResponse`: the caller discards it and pauses. It
keeps no state.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.quorum.partition import PARTITION, Position
from kwire.errors import DecodeError
from kwire.messages import fetch_response, fetch_snapshot_response
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import CLUSTER_METADATA_TOPIC
from kwire.records import iter_batches
from kwire.uuid import METADATA_TOPIC_ID

#: The largest offset: the field is an int64.
_OFFSET_MAX: Final = 2**63 - 1


class InvalidResponse(Exception):
    """A response that no raft leader sends. The text names the fault."""


class Batches(NamedTuple):
    """Whole batches that continue a log, and the log's end after them."""

    data: bytes | memoryview
    end: Position


def fetched_partition(response: fetch_response.FetchResponse) -> fetch_response.PartitionData:
    """Return the metadata partition of a Fetch response. Raises InvalidResponse unless it is the
    only one (``hasValidTopicPartition``).
    """
    # The topic has an id and no name from version 13 on, the lowest that this node sends.
    topics = response.responses
    if len(topics) != 1 or topics[0].topic_id != METADATA_TOPIC_ID:
        raise InvalidResponse(
            f"a Fetch answer with {len(topics)} topics, not with {CLUSTER_METADATA_TOPIC} alone"
        )
    partitions = topics[0].partitions
    if len(partitions) != 1 or partitions[0].partition_index != PARTITION:
        raise InvalidResponse(
            f"a Fetch answer with {len(partitions)} partitions, not with partition {PARTITION} "
            "alone"
        )
    found: fetch_response.PartitionData = partitions[0]
    return found


def snapshot_partition(
    response: fetch_snapshot_response.FetchSnapshotResponse,
) -> fetch_snapshot_response.PartitionSnapshot:
    """Return the metadata partition of a FetchSnapshot response. Raises InvalidResponse unless it
    is the only one.
    """
    topics = response.topics
    if len(topics) != 1 or topics[0].name != CLUSTER_METADATA_TOPIC:
        raise InvalidResponse(
            f"a FetchSnapshot answer with {len(topics)} topics, not with {CLUSTER_METADATA_TOPIC} "
            "alone"
        )
    partitions = topics[0].partitions
    if len(partitions) != 1 or partitions[0].index != PARTITION:
        raise InvalidResponse(
            f"a FetchSnapshot answer with {len(partitions)} partitions, not with partition "
            f"{PARTITION} alone"
        )
    found: fetch_snapshot_response.PartitionSnapshot = partitions[0]
    return found


def given_snapshot(partition: fetch_response.PartitionData, epoch: int) -> SnapshotId | None:
    """Return the snapshot that a Fetch response offers instead of records, if any.

    ``epoch`` is the leader's; no snapshot has a later one. Raises InvalidResponse for an invalid
    id, also for 0-0, the snapshot from formatting, which is never served.
    """
    end_offset, snapshot_epoch = partition.snapshot_id.end_offset, partition.snapshot_id.epoch
    # -1 is the default of both, which stands for no snapshot.
    if end_offset < 0 and snapshot_epoch < 0:
        return None
    # Kafka checks the signs alone: a later epoch would have this node vote as if it had that
    # epoch's log.
    if end_offset < 1 or not 0 <= snapshot_epoch <= epoch:
        raise InvalidResponse(
            f"a leader of epoch {epoch} points to a snapshot with end offset {end_offset} and "
            f"epoch {snapshot_epoch}"
        )
    return SnapshotId(end_offset, snapshot_epoch)


def given_divergence(partition: fetch_response.PartitionData) -> Position | None:
    """Return the epoch, and its end in the leader's log, from which on the logs diverge, if any.

    Raises InvalidResponse if only one of the two is given.
    """
    epoch, end_offset = partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset
    if epoch < 0 and end_offset < 0:
        return None
    if epoch < 0 or end_offset < 0:
        # Kafka looks at the sign of the epoch alone.
        raise InvalidResponse(f"logs that diverge at epoch {epoch}, offset {end_offset}")
    return Position(end_offset, epoch)


def given_batches(
    partition: fetch_response.PartitionData, log_end: Position, leader_epoch: int
) -> Batches | None:
    """Return the whole batches of a Fetch response, None if it has no records.

    They must begin exactly at ``log_end`` and follow each other without a gap, with epochs that
    never decrease and never exceed the leader's. Raises InvalidResponse otherwise. The CRCs are
    checked by ``batches.inspect``.
    """
    records = partition.records
    if not records:
        return None
    offset, epoch, size = log_end.offset, log_end.epoch, 0
    try:
        for batch in iter_batches(records):
            # A KRaft leader writes no gaps. Kafka's follower accepts one; here it would make the
            # offsets that the log index relies on wrong.
            if batch.base_offset != offset or batch.last_offset_delta < 0:
                raise InvalidResponse(
                    f"a batch from offset {batch.base_offset} to {batch.last_offset} where "
                    f"{offset} was to follow"
                )
            if batch.next_offset > _OFFSET_MAX:
                raise InvalidResponse(
                    f"a batch from offset {offset} on that ends behind the largest offset"
                )
            # The epoch is outside of the batch's CRC, so that only this notices a wrong one.
            if not epoch <= batch.partition_leader_epoch <= leader_epoch:
                raise InvalidResponse(
                    f"a batch of epoch {batch.partition_leader_epoch} at offset {offset}, after "
                    f"epoch {epoch}, given by a leader of epoch {leader_epoch}"
                )
            offset, epoch, size = batch.next_offset, batch.partition_leader_epoch, batch.end
    except DecodeError as error:
        raise InvalidResponse(f"records that are no batches: {error}") from None
    # A leader sends the first batch whole even if it exceeds max_bytes (KIP-74), so a response with
    # a part of one batch would be repeated for ever.
    if not size:
        raise InvalidResponse(f"{len(records)} bytes of records without one whole batch")
    return Batches(records if size == len(records) else records[:size], Position(offset, epoch))
