"""Batches of the metadata log as its leader writes them, and what a follower has to know of those
it is given.

Kafka's ``BatchBuilder`` and ``LeaderState.appendLeaderChangeMessage...``. Knows nothing of roles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

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
_CONTROL_BATCH_MAX: Final = 1024 * 1024


class Found(NamedTuple):
    """What batches hold: (epoch, base offset) of each, and the records about voters and
    kraft.version, with their offsets.

    ``voter_ids``: of the last record that names voters, LEADER_CHANGE among them, which static
    quorums have, too.
    """

    batches: list[tuple[int, int]]
    voters: list[tuple[int, VoterSet]]
    versions: list[tuple[int, int]]
    voter_ids: frozenset[int] | None = None


def data_batch(values: Sequence[bytes], base_offset: int, epoch: int, wall_ms: int) -> bytes:
    """One batch of metadata records: no keys, one time for all. Raises EncodeError for what is no
    record.
    """
    records = [
        Record(offset=base_offset + n, timestamp=wall_ms, value=value)
        for n, value in enumerate(values)
    ]
    return encode_batch(records, partition_leader_epoch=epoch)


def control_batch(
    messages: Iterable[tuple[str, Message]], base_offset: int, epoch: int, wall_ms: int
) -> bytes:
    """One batch of control records, each given by type name and body."""
    records = [
        encode_control_record(name, message, offset=base_offset + n, timestamp=wall_ms)
        for n, (name, message) in enumerate(messages)
    ]
    return encode_batch(records, partition_leader_epoch=epoch, is_control=True)


def leader_change(leader_id: int, voters: VoterSet, granting: Iterable[int]) -> tuple[str, Message]:
    """The first record of an epoch: who leads it, who could have voted, who did."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=[Voter(voter_id=id) for id in voters.nodes],
        granting_voters=[Voter(voter_id=id) for id in sorted(granting)],
    )
    return "LEADER_CHANGE", message


def kraft_version(version: int) -> tuple[str, Message]:
    """Which rules about voters hold from here on (KIP-853)."""
    return "KRAFT_VERSION", KRaftVersionRecord(version=0, k_raft_version=version)


def kraft_voters(voters: VoterSet) -> tuple[str, Message]:
    """Who votes from here on (KIP-853)."""
    return "KRAFT_VOTERS", voters.record()


def find(
    data: bytes | memoryview, *, known_versions: Collection[int] | None = KRAFT_VERSIONS
) -> Found:
    """Look through whole batches given by a leader; every CRC is checked. Raises InvalidResponse
    for the first that is bad.

    ``known_versions`` of kraft.version: a voter must not follow rules that it does not know; None
    allows any to an observer, which copies the records of newer quorums without obeying them.
    """
    found = Found([], [], [])
    voter_ids = None
    try:
        for batch in iter_batches(data, check_crc=True):
            found.batches.append((batch.partition_leader_epoch, batch.base_offset))
            if batch.is_control:
                voter_ids = _look_into(data, batch, found, known_versions) or voter_ids
    except DecodeError as error:
        raise InvalidResponse(f"records that cannot be read: {error}") from None
    return found._replace(voter_ids=voter_ids)


def _look_into(
    data: bytes | memoryview,
    batch: BatchHeader,
    found: Found,
    known_versions: Collection[int] | None,
) -> frozenset[int] | None:
    """Collect the control records about voters; returns the ids that the last one names. Raises
    DecodeError, InvalidResponse.
    """
    last, voter_ids = batch.base_offset - 1, None
    for record in decode_batch(data, batch.position, limit=_CONTROL_BATCH_MAX).records:
        if not last < record.offset <= batch.last_offset:
            raise InvalidResponse(
                f"a record at offset {record.offset} in the batch from {batch.base_offset} to {batch.last_offset}"
            )
        last = record.offset
        message = decode_control_record(record).message
        if isinstance(message, VotersRecord):
            found.voters.append((record.offset, _voters(message, record.offset)))
            voter_ids = frozenset(found.voters[-1][1].nodes)
        elif isinstance(message, LeaderChangeMessage):
            voter_ids = frozenset(voter.voter_id for voter in message.voters) or voter_ids
        elif isinstance(message, KRaftVersionRecord):
            if known_versions is not None and message.k_raft_version not in known_versions:
                raise InvalidResponse(
                    f"kraft.version {message.k_raft_version} at offset {record.offset}, which is not known here"
                )
            found.versions.append((record.offset, message.k_raft_version))
    return voter_ids


def _voters(message: VotersRecord, offset: int) -> VoterSet:
    try:
        voters = VoterSet.of_record(message)
    except ValueError as error:
        raise InvalidResponse(f"voters at offset {offset}: {error}") from None
    if not len(voters):
        raise InvalidResponse(f"no voters at all at offset {offset}")
    return voters
