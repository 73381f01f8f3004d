"""Directories of voters for the tests of what they have on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.base.address import Address
from gateway.log.files.disk import Disk
from gateway.log.metadata.formatting import Formatting, format_directory, voter
from gateway.log.metadata.raft_store import RaftStore
from gateway.log.partition.log_settings import LogSettings
from kwire.messages.leader_change_message import LeaderChangeMessage
from kwire.messages.voters_record import VotersRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import encode_batch, encode_control_record
from kwire.uuid import Uuid
from tests.gateway.log.kafka_files import snapshot_bytes
from tests.gateway.log.workload import CLUSTER_ID, DIRECTORY_ID, SMALL

NODE_ID = 1
OTHER_DIRECTORY = Uuid(bytes(range(16)))


def voters(*ids: int) -> VotersRecord:
    """These nodes vote."""
    nodes = [
        voter(
            id,
            DIRECTORY_ID if id == NODE_ID else OTHER_DIRECTORY,
            {"CONTROLLER": Address("h", 9090 + id)},
        )
        for id in ids
    ]
    return VotersRecord(version=0, voters=nodes)


def formatting(first: VotersRecord | None = None) -> Formatting:
    """For node 1 of a dynamic quorum, alone unless ``first`` says otherwise."""
    return Formatting(CLUSTER_ID, NODE_ID, DIRECTORY_ID, voters=first or voters(NODE_ID))


def new_store(
    data_dir: Path, settings: LogSettings = SMALL, *, disk: Disk | None = None, **more: Any
) -> RaftStore:
    """A store on a directory that was just formatted."""
    format_directory(data_dir, formatting(), disk=disk)
    return open_store(data_dir, settings, disk=disk, **more)


def open_store(data_dir: Path, settings: LogSettings = SMALL, **more: Any) -> RaftStore:
    """Node 1's store, as its process opens it; segments are small unless ``settings`` say
    otherwise.
    """
    return RaftStore.open(
        data_dir, settings, **{"node_id": NODE_ID, "cluster_id": CLUSTER_ID, **more}
    )


def control_batch(offset: int, epoch: int, *messages: tuple[str, Any]) -> bytes:
    """A control batch; a LEADER_CHANGE where nothing is said."""
    named = messages or (("LEADER_CHANGE", LeaderChangeMessage(version=0, leader_id=NODE_ID)),)
    records = [
        encode_control_record(name, body, offset=offset + n, timestamp=1_700_000_000_000)
        for n, (name, body) in enumerate(named)
    ]
    return encode_batch(records, partition_leader_epoch=epoch, is_control=True)


def download(store: RaftStore, snapshot: SnapshotId, data: bytes | None = None) -> None:
    """Write a snapshot as it comes from a leader, and freeze it."""
    writer = store.new_snapshot(snapshot)
    data = snapshot_bytes(snapshot.epoch, (3, 2)) if data is None else data
    for start in range(0, len(data), 200):
        writer.write(start, data[start : start + 200])
    writer.freeze()
