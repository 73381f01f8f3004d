"""Forces acts on nodes that no message can: ends their timeouts, and writes their snapshots."""

from __future__ import annotations

from gateway.quorum import batches
from gateway.quorum.raft import Raft
from gateway.quorum.roles import Candidate, Follower, Leader, Prospective
from kwire.message import Message
from kwire.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import Record, encode_batch, encode_control_record
from tests.gateway.quorum.world import Member


def run_out(raft: Raft, now: float) -> None:
    """The time until this node stands for election, or gives one up, is over."""
    role = raft._node.role
    if isinstance(role, Follower):
        role.fetch_until = now
    elif isinstance(role, Prospective | Candidate):
        role.give_up_at = now
    elif isinstance(role, Leader):
        role.silent_at = now
    else:
        role.election_at = now


def take_snapshot(member: Member, end: int) -> SnapshotId:
    """A small snapshot of the node's log up to ``end`` on its disk, and the log below dropped."""
    raft, disk = member.raft, member.disk
    assert raft is not None and end <= raft.high_watermark
    epoch = max(batch.epoch for batch in disk.batches if batch.base < end)
    id = SnapshotId(end, epoch)
    head: list[tuple[str, Message]] = [
        ("SNAPSHOT_HEADER", SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0))
    ]
    if raft.kraft_version >= 1:
        head += [batches.kraft_version(raft.kraft_version), batches.kraft_voters(raft.voters)]
    records = [
        encode_control_record(name, message, offset=n, timestamp=0)
        for n, (name, message) in enumerate(head)
    ]
    data = encode_batch(records, partition_leader_epoch=epoch, is_control=True)
    data += encode_batch(
        [Record(offset=len(head), timestamp=0, value=b"state")], partition_leader_epoch=epoch
    )
    footer = encode_control_record(
        "SNAPSHOT_FOOTER", SnapshotFooterRecord(version=0), offset=len(head) + 1, timestamp=0
    )
    data += encode_batch([footer], partition_leader_epoch=epoch, is_control=True)
    disk.snapshots = {id: data}
    kept = [batch for batch in disk.batches if batch.base >= end]
    assert not kept or kept[0].base == end, "a snapshot that ends inside of a batch"
    disk.batches, disk.start, disk.start_epoch = kept, end, epoch
    return id
