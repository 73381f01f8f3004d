"""Plans the files of a rescued ``__cluster_metadata-0``: the same inputs give the same bytes.

The log of the source stays as it is, byte for byte, and one control batch is appended at its end:
KRAFT_VOTERS with the new voters, in an epoch above all that were seen. ``quorum-state`` has that
epoch and no vote, so that the first voter elects itself in the next one. A static quorum
(``kraft.version`` 0) has its voters in the configuration, and gets the epoch alone. Indexes and
``leader-epoch-checkpoint`` are left out: Kafka builds them anew from the segments. It writes
nothing. Source: ``KafkaRaftClient``, ``LogLoader``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.log.files import partition_metadata, quorum_state
from gateway.log.files.meta_properties import MetaProperties, format_meta_properties
from gateway.quorum.voter_set import VoterSet
from gateway.rescue.copies import Copy
from gateway.rescue.verdict import EPOCH_MARGIN
from kwire.messages.quorum_state_data import QuorumStateData
from kwire.messages.quorum_state_data import Voter as StaticVoter
from kwire.metadata_log.file_names import BOOTSTRAP_SNAPSHOT, segment_name
from kwire.records import encode_batch, encode_control_record
from kwire.uuid import METADATA_TOPIC_ID, Uuid

_META_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file: the first ``length`` bytes of the source's file of that name (None: all of it, if it
    is there), then ``appended``.
    """

    name: str
    length: int | None = 0
    appended: bytes = b""


@dataclass(frozen=True, slots=True)
class Plan:
    """The partition's directory after the rescue. ``end_offset``: of the rescued log."""

    epoch: int
    end_offset: int
    voters: VoterSet
    is_static: bool
    batch: bytes
    files: tuple[PlannedFile, ...]
    drops_controllers: bool = False


def plan_rescue(source: Copy, voters: VoterSet, epoch: int) -> Plan:
    """Plan the rescue of a whole copy for these voters at ``epoch``."""
    assert source.is_whole and not source.is_empty, "a damaged or empty copy is refused before"
    assert epoch > source.epochs_seen, "an epoch that was seen is refused before"
    is_static = source.kraft_version == 0
    batch = b"" if is_static else _voters_batch(source, voters, epoch)
    files = [
        *(PlannedFile(one.file_name, None) for one in source.snapshots),
        PlannedFile(BOOTSTRAP_SNAPSHOT.file_name, None),
        *_segments(source, batch),
        PlannedFile(quorum_state.FILE_NAME, 0, election_bytes(voters, epoch, is_static)),
        PlannedFile(
            partition_metadata.FILE_NAME, 0, partition_metadata.format_topic_id(METADATA_TOPIC_ID)
        ),
    ]
    end = source.end.end_offset + bool(batch)
    return Plan(epoch, end, voters, is_static, batch, tuple(files))


def is_rescued(copy: Copy, voters: VoterSet) -> bool:
    """Whether a rescue for these voters has been written to a copy, and its node not started
    since.
    """
    election = copy.election
    if election is None or election.leader_id >= 0 or election.voted_id >= 0:
        return False
    if copy.kraft_version == 0:
        ids = tuple(one.id for one in voters)
        return election.voter_ids == ids and election.epoch >= copy.end.epoch + EPOCH_MARGIN
    offset, newest = copy.voters[-1] if copy.voters else (-1, None)
    # A leader writes the record of its leadership before any change of voters.
    opens_epoch = len(copy.marks) < 2 or copy.marks.epochs[-2] < copy.end.epoch
    return (
        newest == voters
        and offset == copy.end.end_offset - 1
        and copy.end.epoch == election.epoch
        and opens_epoch
    )


def new_directory_id(cluster_id: str, node_id: int, epoch: int) -> Uuid:
    """Return the id of a directory that a rescue makes: the same for the same rescue."""
    digest = hashlib.sha256(f"{cluster_id} {node_id} {epoch}".encode()).digest()[:16]
    # No leading dash, which command lines take for an option.
    return Uuid(bytes([digest[0] & 0x7F]) + digest[1:])


def new_meta(cluster_id: str, node_id: int, directory_id: Uuid, timestamp: int | None) -> bytes:
    """Return ``meta.properties`` of a new directory. ``timestamp``: of the last record, ms."""
    when = datetime.fromtimestamp(max(timestamp or 0, 0) / 1000, UTC)
    properties = MetaProperties(_META_VERSION, cluster_id, node_id, directory_id)
    return format_meta_properties(properties, when)


def _voters_batch(source: Copy, voters: VoterSet, epoch: int) -> bytes:
    end = source.end.end_offset
    # The time of the last record, so that equal inputs give equal bytes.
    timestamp = -1 if source.last_timestamp is None else source.last_timestamp
    record = encode_control_record("KRAFT_VOTERS", voters.record(), offset=end, timestamp=timestamp)
    return encode_batch([record], partition_leader_epoch=epoch, is_control=True)


def _segments(source: Copy, batch: bytes) -> list[PlannedFile]:
    if not source.segments:
        # The snapshot replaces the log, which continues at its end.
        return [PlannedFile(segment_name(source.end.end_offset), 0, batch)]
    *closed, (name, length) = source.segments
    return [
        *(PlannedFile(one, size) for one, size in closed),
        PlannedFile(name, length, batch),
    ]


def election_bytes(voters: VoterSet, epoch: int, is_static: bool) -> bytes:
    """Return ``quorum-state`` at ``epoch`` without a leader and a vote."""
    state = QuorumStateData(leader_id=-1, leader_epoch=epoch, voted_id=-1)
    if is_static:
        state.current_voters = [StaticVoter(voter_id=one.id) for one in voters]
        return quorum_state.format_quorum_state(state, 0)
    return quorum_state.format_quorum_state(state, 1)
