"""Requests and effects in few words, for transcripts and traces."""

from __future__ import annotations

from gateway.quorum.effects import (
    AbandonSnapshot,
    Advance,
    Append,
    BeginSnapshot,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    LearnClusterId,
    Persist,
    Report,
    SnapshotChunk,
    Stop,
    Truncate,
)
from kwire.message import Message
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from kwire.records import iter_batches
from kwire.uuid import ZERO_UUID

_ABSENT = (1 << 63) - 1


def request_text(request: Message, version: int) -> str:
    request = type(request).decode(request.encode(version), version)
    match request:
        case FetchRequest():
            asked = request.topics[0].partitions[0]
            id = max(request.replica_id, request.replica_state.replica_id)
            text = (
                f"Fetch v{version} epoch={asked.current_leader_epoch} "
                f"offset={asked.fetch_offset} lfe={asked.last_fetched_epoch}"
            )
            text += f" hw={asked.high_watermark}" if asked.high_watermark != _ABSENT else ""
            text += f" replica={id}" if id != -1 else ""
            text += (
                f" directory={asked.replica_directory_id}"
                if asked.replica_directory_id != ZERO_UUID
                else ""
            )
        case FetchSnapshotRequest():
            part = request.topics[0].partitions[0]
            wanted = f"id={part.snapshot_id.end_offset}-{part.snapshot_id.epoch} at={part.position}"
            text = f"FetchSnapshot v{version} epoch={part.current_leader_epoch} {wanted}"
        case DescribeClusterRequest() | DescribeQuorumRequest():
            return f"{request.NAME.removesuffix('Request')} v{version}"
        case _:
            raise AssertionError(request)
    return text + (f" cluster={request.cluster_id}" if request.cluster_id is not None else "")


def effect_text(effect: Effect) -> str:
    match effect:
        case Append(_, _, records):
            spans = [
                f"{batch.base_offset}-{batch.last_offset}@{batch.partition_leader_epoch}"
                for batch in iter_batches(records)
            ]
            return f"Append {','.join(spans)}"
        case SnapshotChunk(position, data, size):
            return f"SnapshotChunk at={position} bytes={bytes(data).decode()} size={size}"
        case BeginSnapshot(id) | InstallSnapshot(_, id) | AbandonSnapshot(id):
            return f"{type(effect).__name__} {id.end_offset}-{id.epoch}"
        case Truncate(_, offset) | Advance(offset):
            return f"{type(effect).__name__} {offset}"
        case Persist(_, state, _):
            return f"Persist epoch={state.epoch} leader={state.leader_id}"
        case LeaderChanged(epoch, leader_id):
            return f"LeaderChanged epoch={epoch} leader={leader_id}"
        case LearnClusterId(_, id) | Stop(id):
            return f"{type(effect).__name__} {id}"
        case Report(event, said):
            return f"Tell {event}: {', '.join(f'{name}={value}' for name, value in said.items())}"
        case _:
            raise AssertionError(effect)
