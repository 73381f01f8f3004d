"""Shows a described quorum and the leaders of the log's epochs as JSON. It asks no node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.errors import DecodeError
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.records import decode_control_record
from kwire.records.batch import decode_batch

if TYPE_CHECKING:
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse, ReplicaState


class Leader(NamedTuple):
    """The leader of an epoch: the first offset of the epoch, the leader's id (None where no record
    names it), and when it wrote the record, ms.
    """

    epoch: int
    offset: int
    leader: int | None
    time: int | None


def leader_of(epoch: int, offset: int, data: bytes) -> Leader:
    """Return the leader that the first batch of an epoch names: ``data`` begins with it, unless it
    cannot be read.
    """
    try:
        batch = decode_batch(data, 0)
        for record in batch.records if batch.header.is_control else ():
            message = decode_control_record(record).message
            if isinstance(message, LeaderChangeMessage):
                return Leader(epoch, offset, message.leader_id, record.timestamp)
    except DecodeError:
        return Leader(epoch, offset, None, None)
    return Leader(epoch, offset, None, batch.header.max_timestamp)


def described(response: DescribeQuorumResponse) -> dict[str, Any]:
    """Return leader, epoch, high watermark, voters and observers.

    ``lag`` is the number of records behind the leader's end; times are ms since 1970 by the
    leader's clock, None where it has none.
    """
    partition = response.topics[0].partitions[0]
    replicas = [*partition.current_voters, *partition.observers]
    ends = {one.replica_id: one.log_end_offset for one in partition.current_voters}
    end = ends.get(partition.leader_id, max((one.log_end_offset for one in replicas), default=0))
    return {
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "highWatermark": partition.high_watermark,
        "voters": [_replica(one, end) for one in partition.current_voters],
        "observers": [_replica(one, end) for one in partition.observers],
    }


def _replica(replica: ReplicaState, end: int) -> dict[str, Any]:
    fetched, caught_up = replica.last_fetch_timestamp, replica.last_caught_up_timestamp
    return {
        "id": replica.replica_id,
        "end": replica.log_end_offset,
        "lag": None if replica.log_end_offset < 0 else max(0, end - replica.log_end_offset),
        "fetched": fetched if fetched >= 0 else None,
        "caughtUp": caught_up if caught_up >= 0 else None,
    }
