"""Rows 38 to 45 of the checklist of hostile input: requests between the nodes of a quorum.

Each row names a request to a node that leads, and the error of its response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from gateway.quorum.partition import Position
from gateway.quorum.voter_set import VoterNode
from kwire.messages.end_quorum_epoch_request import ReplicaInfo
from kwire.metadata_log.snapshot_id import SnapshotId
from kwire.protocol import ErrorCode
from tests.hostile.voter_requests import (
    UNKNOWN_DIRECTORY,
    VoterRequests,
    add_voter,
    fetch_by_name,
    other_cluster,
    spoil,
    with_partitions,
    with_topics,
    wrong_partition,
    wrong_topic,
)

EPOCH_MAX = ID_MAX = 2**31 - 1
OFFSET_MAX = 2**63 - 1
CLOSED = None  #: the outcome of a request whose connection is closed without a response
Make = Callable[[VoterRequests], Any]


@dataclass(frozen=True)
class Row:
    """A request to the controllers' listener. The first error of its response must be ``error``."""

    number: int
    what: str
    make: Make
    error: int | None
    version: int | None = None  #: the newest, if none is given

    def __str__(self) -> str:
        return f"{self.number}-{self.what}".replace(" ", "-")


def changed(make: Make, change: Callable[..., Any], *args: Any, **fields: Any) -> Make:
    """Make a request, then ``change(request, *args, **fields)``."""
    return lambda voter: change(make(voter), *args, **fields)


FETCH_18: Make = methodcaller("fetch", 18)
MAKERS: dict[str, Make] = {
    "vote": methodcaller("vote"),
    "begin": lambda a: a.begin(leader=a.me),
    "end": lambda a: a.end_epoch(leader=a.me),
    "fetch": FETCH_18,
    "fetch snapshot": methodcaller("fetch_snapshot"),
}
INVALID, FENCED, UNKNOWN_EPOCH = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
)


def shapes() -> Iterator[Row]:
    """38: the number of topics and partitions, and other topics and partitions."""
    for name, make in MAKERS.items():
        for count in (0, 2, 1000):
            topics, partitions = (
                changed(make, with_topics, count),
                changed(make, with_partitions, count),
            )
            yield Row(38, f"{name} of {count} topics", topics, INVALID)
            yield Row(38, f"{name} of {count} partitions", partitions, INVALID)
        wrong = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name == "fetch snapshot" else INVALID
        yield Row(38, f"{name} of another topic", changed(make, wrong_topic), wrong)
        for index in (1, -1, EPOCH_MAX):
            other = changed(make, wrong_partition, index)
            yield Row(38, f"{name} of partition {index}", other, wrong)
    yield Row(38, "fetch by name at version 12", fetch_by_name, 0, version=12)


def epochs() -> Iterator[Row]:
    """39: impossible epochs."""
    fields = {"vote": "replica_epoch", "begin": "leader_epoch", "end": "leader_epoch"}
    for name, make in MAKERS.items():
        field = fields.get(name, "current_leader_epoch")
        for epoch in (-1, -(2**31)):
            error = INVALID if name in ("vote", "fetch") else FENCED  # the log is of a later epoch
            yield Row(39, f"{name} in epoch {epoch}", changed(make, spoil, **{field: epoch}), error)
        yield Row(39, f"{name} in the epoch before", changed(make, _one_earlier, field), FENCED)
    for ahead in (1, 1000):
        fetch = methodcaller("fetch", 18, epoch=ahead)
        yield Row(39, f"fetch {ahead} epochs ahead", fetch, UNKNOWN_EPOCH)
        snapshot = methodcaller("fetch_snapshot", epoch=ahead)
        yield Row(39, f"fetch snapshot {ahead} epochs ahead", snapshot, UNKNOWN_EPOCH)
    last = changed(FETCH_18, spoil, current_leader_epoch=EPOCH_MAX)
    yield Row(39, "fetch in the last epoch", last, UNKNOWN_EPOCH)


def _one_earlier(message: Any, field: str) -> Any:
    partition = message.topics[0].partitions[0]
    return spoil(message, **{field: getattr(partition, field) - 1})


def offsets() -> Iterator[Row]:
    """39: impossible offsets, and epochs of log ends."""
    for what, fields, error in (
        ("fetch from offset -1", {"fetch_offset": -1}, INVALID),
        ("fetch from the last offset", {"fetch_offset": OFFSET_MAX}, 0),
        ("last fetched epoch -1", {"last_fetched_epoch": -1}, INVALID),
    ):
        yield Row(39, what, changed(FETCH_18, spoil, **fields), error)
    yield Row(
        39,
        "fetch behind the end",
        lambda a: a.fetch(18, log_end=Position(a.end.offset + 10**6, a.epoch)),
        0,
    )
    yield Row(
        39,
        "last fetched epoch ahead",
        lambda a: spoil(a.fetch(18), last_fetched_epoch=a.epoch + 1),
        INVALID,
    )
    yield Row(
        39,
        "vote with a log of its own epoch",
        lambda a: spoil(a.vote(), last_offset_epoch=a.epoch),
        INVALID,
    )
    for what, fields in (
        ("vote with a log of a later epoch", {"last_offset_epoch": EPOCH_MAX}),
        ("vote with a log of epoch -1", {"last_offset_epoch": -1}),
        ("vote with a log of -1 records", {"last_offset": -1}),
    ):
        yield Row(39, what, changed(methodcaller("vote"), spoil, **fields), INVALID)
    for what, changes in (
        ("snapshot of no such offset", {"id": SnapshotId(OFFSET_MAX, 1)}),
        ("snapshot of offset -1", {"id": SnapshotId(-1, -1)}),
        ("snapshot of formatting", {"id": SnapshotId(0, 0)}),
        ("position -1", {"position": -1}),
    ):
        yield Row(39, what, methodcaller("fetch_snapshot", **changes), ErrorCode.SNAPSHOT_NOT_FOUND)


def ids() -> Iterator[Row]:
    """40 to 42: impossible senders and receivers, second leaders, other clusters."""
    for id in (-1, -(2**31)):
        yield Row(40, f"vote for {id}", methodcaller("vote", candidate=id), INVALID)
        yield Row(40, f"leader {id} begins", methodcaller("begin", leader=id), INVALID)
        yield Row(40, f"leader {id} ends", methodcaller("end_epoch", leader=id), INVALID)
    yield Row(40, "vote for the receiver", lambda a: a.vote(candidate=a.me), INVALID)
    yield Row(40, "vote for an unknown id", methodcaller("vote", candidate=ID_MAX), 0)
    yield Row(40, "pre-vote for an unknown id", methodcaller("vote", pre_vote=True), 0)
    other = methodcaller("vote", voter=VoterNode(99))
    yield Row(40, "vote of another voter", other, ErrorCode.INVALID_VOTER_KEY)
    yield Row(
        40,
        "vote of another directory",
        lambda a: a.vote(voter=VoterNode(a.me, UNKNOWN_DIRECTORY)),
        ErrorCode.INVALID_VOTER_KEY,
    )
    yield Row(
        40,
        "fetch by the receiver",
        lambda a: a.fetch(18, replica=a.me),
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
    for replica in (-2, -(2**31), ID_MAX):
        yield Row(40, f"fetch by {replica}", methodcaller("fetch", 18, replica=replica), 0)
    yield Row(41, "a second leader begins", methodcaller("begin", leader=2), INVALID)
    yield Row(41, "a second leader ends", methodcaller("end_epoch", leader=2), INVALID)
    inconsistent = ErrorCode.INCONSISTENT_CLUSTER_ID
    for name, make in MAKERS.items():
        yield Row(42, f"{name} of another cluster", changed(make, other_cluster), inconsistent)
        yield Row(42, f"{name} of no cluster", changed(make, other_cluster, ""), inconsistent)
    added = add_voter("another-cluster-000000")
    yield Row(42, "a voter of another cluster", lambda _: added, inconsistent)


def successions() -> Iterator[Row]:
    """43: preferred successors in an EndQuorumEpoch of a node that does not lead."""
    for version in (0, 1):
        for name, successors in (
            ("none", []),
            ("the same twice", [(3, UNKNOWN_DIRECTORY)] * 2),
            ("900", [(id, UNKNOWN_DIRECTORY) for id in range(900)]),
        ):
            make = methodcaller("end_epoch", version, leader=2, successors=successors)
            what = f"version {version} from a non-leader names {name}"
            yield Row(43, what, make, INVALID, version=version)
    many = [ReplicaInfo(candidate_id=1)] * 100_000
    ended = methodcaller("end_epoch", leader=2)
    yield Row(43, "100,000 of them", changed(ended, spoil, preferred_candidates=many), CLOSED)


def fetches() -> Iterator[Row]:
    """44, 45: unusual limits and sessions of a Fetch."""
    for size in (0, -1, -(2**31), 2**31 - 1):
        yield Row(44, f"fetch of {size} bytes", methodcaller("fetch", 18, max_bytes=size), 0)
        at_least = methodcaller("fetch", 18, min_bytes=size)
        yield Row(44, f"fetch of at least {size} bytes", at_least, 0)
    waiting = methodcaller("fetch", 18, max_wait_ms=-1)
    yield Row(44, "fetch that waits for -1 ms", waiting, INVALID)
    for epoch in (-1, 0, 1, 5, EPOCH_MAX):
        for id in (0, 1, -1, EPOCH_MAX):
            session = methodcaller("fetch", 18, session_id=id, session_epoch=epoch)
            yield Row(45, f"session {id} epoch {epoch}", session, 0)


ROWS = [*shapes(), *epochs(), *offsets(), *ids(), *successions(), *fetches()]
