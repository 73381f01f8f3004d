"""Small real batches for model logs: what a leader writes, with right CRCs, made once each."""

from __future__ import annotations

import functools
from typing import NamedTuple

from kwire.message import Message
from kwire.messages import voters_record
from kwire.messages.k_raft_version_record import KRaftVersionRecord
from kwire.messages.leader_change_message import LeaderChangeMessage, Voter
from kwire.messages.voters_record import VotersRecord
from kwire.records import Record, encode_batch, encode_control_record


class Batch(NamedTuple):
    """A batch of a model log: base offset, one past its last offset, leader epoch, bytes."""

    base: int
    next: int
    epoch: int
    data: bytes


@functools.lru_cache(maxsize=4096)
def data_batch(base: int, count: int, epoch: int, value: int) -> Batch:
    """``count`` records; ``value`` tells batches apart that have the same place."""
    records = [
        Record(offset=base + n, timestamp=1000, value=b"%d/%d" % (value, n)) for n in range(count)
    ]
    return Batch(base, base + count, epoch, encode_batch(records, partition_leader_epoch=epoch))


@functools.lru_cache(maxsize=4096)
def leader_change(
    base: int, epoch: int, leader: int, voters: tuple[int, ...], dynamic: bool = False
) -> Batch:
    """The first batch of an epoch: LEADER_CHANGE; in a ``dynamic`` quorum's first epoch also
    KRAFT_VERSION and KRAFT_VOTERS.
    """
    messages: list[tuple[str, Message]] = [
        (
            "LEADER_CHANGE",
            LeaderChangeMessage(
                leader_id=leader, voters=[Voter(voter_id=voter) for voter in voters]
            ),
        )
    ]
    if dynamic:
        messages.append(("KRAFT_VERSION", KRaftVersionRecord(k_raft_version=1)))
        messages.append(
            (
                "KRAFT_VOTERS",
                VotersRecord(voters=[voters_record.Voter(voter_id=voter) for voter in voters]),
            )
        )
    records = [
        encode_control_record(name, message, offset=base + n, timestamp=1000)
        for n, (name, message) in enumerate(messages)
    ]
    return Batch(
        base,
        base + len(records),
        epoch,
        encode_batch(records, partition_leader_epoch=epoch, is_control=True),
    )


def corrupted(data: bytes) -> bytes:
    """The same bytes with one bit of the last record wrong, which only the CRC tells."""
    return data[:-1] + bytes([data[-1] ^ 1])
