"""Encodes the batches that a leader appends, and inspects those that a follower receives.

It does not know roles. Follows Kafka's ``BatchBuilder``,
``LeaderState.appendStartOfEpochControlRecords`` and, for the inspection,
``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from gateway.base.sizes import MIB
from gateway.quorum.requests import KRAFT_VERSIONS
from gateway.quorum.response_checks import InvalidResponse
from gateway.quorum.voter_set import VoterSet
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.leader_change_message import LeaderChangeMessage, Voter
from kwire.messages.voters_record import VotersRecord
from kwire.records import (
    BatchHeader,
    Record,
    decode_batch,
    decode_control_record,
    encode_batch,
    encode_control_record,
    iter_batches,
)

#: A control batch holds a few records of a few hundred bytes.
_CONTROL_BATCH_MAX: Final = MIB


class BatchSummary(NamedTuple):
    """(epoch, base offset) of each batch, and (offset, value) of the records about voters and
    kraft.version.

    ``voter_ids``: the ids in the last record that names voters. LEADER_CHANGE counts, because a
    static quorum writes no other such record.
    """

    batches: list[tuple[int, int]]
    voters: list[tuple[int, VoterSet]]
    versions: list[tuple[int, int]]
    voter_ids: frozenset[int] | None = None


def data_batch(values: Sequence[bytes], base_offset: int, epoch: int, wall_ms: int) -> bytes:
    """Encode one batch of metadata records: no keys, one timestamp (``wall_ms``) for all.

    ``values`` include the frame. Raises EncodeError.
    """
    records = [
        Record(offset=base_offset + n, timestamp=wall_ms, value=value)
        for n, value in enumerate(values)
    ]
    # Uncompressed, as in ``KafkaRaftClient.onBecomeLeader``.
    return encode_batch(records, partition_leader_epoch=epoch)


def control_batch(
    messages: Iterable[tuple[str, Message]], base_offset: int, epoch: int, wall_ms: int
) -> bytes:
    """Encode one batch of control records, each given by type name and body."""
    records = [
        encode_control_record(name, message, offset=base_offset + n, timestamp=wall_ms)
        for n, (name, message) in enumerate(messages)
    ]
    return encode_batch(records, partition_leader_epoch=epoch, is_control=True)


def leader_change(leader_id: int, voters: VoterSet, granting: Iterable[int]) -> tuple[str, Message]:
    """Return the first record of an epoch: its leader, the voters, and those that granted a
    vote.
    """
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[Voter(voter_id=id) for id in voters.nodes],
        # In a fixed order: the same election gives the same bytes.
        granting_voters=[Voter(voter_id=id) for id in sorted(granting)],
    )
    # Type 2 and not the 3 of KIP-595's text, as it shipped.
    return "LEADER_CHANGE", message


def kraft_version(version: int) -> tuple[str, Message]:
    """Return the record that sets kraft.version from its offset on (KIP-853)."""
    return "KRAFT_VERSION", KRaftVersionRecord(version=0, k_raft_version=version)


def kraft_voters(voters: VoterSet) -> tuple[str, Message]:
    """Return the record that sets the voters from its offset on (KIP-853)."""
    return "KRAFT_VOTERS", voters.record()


def inspect(
    data: bytes | memoryview, *, known_versions: Collection[int] | None = KRAFT_VERSIONS
) -> BatchSummary:
    """Inspect whole batches from a leader; every CRC is checked.

    ``known_versions`` of kraft.version: a voter must not follow rules that it does not know; None
    allows any to an observer, which copies the records of newer quorums without obeying them.
    Raises InvalidResponse for the first bad batch.
    """
    found = BatchSummary([], [], [])
    voter_ids = None
    try:
        # Kafka's follower appended batches without checking the CRC first (KAFKA-18723): a bit
        # that flips on the wire would be replicated and stop every later reader.
        for batch in iter_batches(data, check_crc=True):
            found.batches.append((batch.partition_leader_epoch, batch.base_offset))
            # Only control batches are decoded: metadata records mean nothing to the quorum, and a
            # record that cannot be decoded must be replicated all the same.
            if batch.is_control:
                voter_ids = _inspect_control(data, batch, found, known_versions) or voter_ids
    except DecodeError as error:
        raise InvalidResponse(f"records that cannot be read: {error}") from None
    return found._replace(voter_ids=voter_ids)


def _inspect_control(
    data: bytes | memoryview,
    batch: BatchHeader,
    found: BatchSummary,
    known_versions: Collection[int] | None,
) -> frozenset[int] | None:
    """Collect the control records about voters; return the ids that the last one names.

    Raises DecodeError, InvalidResponse.
    """
    last, voter_ids = batch.base_offset - 1, None
    for record in decode_batch(data, batch.position, limit=_CONTROL_BATCH_MAX).records:
        # The voter history is ordered by these offsets, and a truncation cuts it by them: a record
        # outside its batch would survive the truncation of that batch.
        if not last < record.offset <= batch.last_offset:
            raise InvalidResponse(
                f"a record at offset {record.offset} in the batch from {batch.base_offset} to "
                f"{batch.last_offset}"
            )
        last = record.offset
        message = decode_control_record(record).message
        if isinstance(message, VotersRecord):
            found.voters.append((record.offset, _voters(message, record.offset)))
            voter_ids = frozenset(found.voters[-1][1].nodes)
        elif isinstance(message, LeaderChangeMessage):
            # Below kraft.version 1 the voters of a LEADER_CHANGE are the only ones that the log
            # names.
            voter_ids = frozenset(voter.voter_id for voter in message.voters) or voter_ids
        elif isinstance(message, KRaftVersionRecord):
            if known_versions is not None and message.k_raft_version not in known_versions:
                raise InvalidResponse(
                    f"kraft.version {message.k_raft_version} at offset {record.offset}, which is "
                    "not known here"
                )
            found.versions.append((record.offset, message.k_raft_version))
    return voter_ids


def _voters(message: VotersRecord, offset: int) -> VoterSet:
    try:
        voters = VoterSet.of_record(message)
    except ValueError as error:
        raise InvalidResponse(f"voters at offset {offset}: {error}") from None
    # No majority of an empty set exists, so no node could ever be elected again.
    if not len(voters):
        raise InvalidResponse(f"no voters at all at offset {offset}")
    return voters
