"""Plans a rescue by a snapshot, for a log that is damaged, or in which records must go.

The state at an offset becomes the snapshot that replaces the whole log, with the new voters in its
head. Its id has the new epoch, so that every replica is sent the snapshot, and learns the voters
from it: with the epoch of the last record a replica that ends there would not. It writes nothing.
Source: ``RecordsSnapshotWriter``.
"""

from __future__ import annotations

from gateway.log.files import partition_metadata, quorum_state
from gateway.log.metadata.snapshot_file import MemorySink, SnapshotFile
from gateway.quorum.voter_set import VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.plan import Plan, PlannedFile, election_bytes
from kwire.cluster.image import Image
from kwire.cluster.levels import unknown_level
from kwire.cluster.snapshot import image_records
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.records import encode_metadata_record
from kwire.uuid import METADATA_TOPIC_ID


def plan_snapshot(
    source: Copy,
    image: Image,
    voters: VoterSet,
    epoch: int,
    *,
    end_offset: int,
    timestamp: int | None,
    drops_controllers: bool = False,
) -> Plan:
    """Plan the rescue of the state before ``end_offset``; ``timestamp``: of its last record, ms.

    ``drops_controllers``: ``image`` lacks controllers that are no voters any more.
    """
    assert epoch > source.epochs_seen, "an epoch that was seen is refused before"
    assert unknown_level(image.features) is None, "a state that cannot be written is refused before"
    is_static = source.kraft_version == 0
    snapshot = SnapshotId(end_offset, epoch)
    sink = MemorySink()
    file = SnapshotFile(
        sink,
        snapshot,
        last_contained_log_timestamp=-1 if timestamp is None else timestamp,
        kraft_version=source.kraft_version,
        voters=None if is_static else voters.record(),
    )
    for record, version in image_records(image):
        file.append(encode_metadata_record(record, version))
    file.finish()
    files = (
        PlannedFile(snapshot.file_name, 0, bytes(sink.data)),
        PlannedFile(quorum_state.FILE_NAME, 0, election_bytes(voters, epoch, is_static)),
        PlannedFile(
            partition_metadata.FILE_NAME, 0, partition_metadata.format_topic_id(METADATA_TOPIC_ID)
        ),
    )
    return Plan(epoch, end_offset, voters, is_static, b"", files, drops_controllers)
