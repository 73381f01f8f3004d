"""What a node of the quorum can be, one class per role, with what only that role has to remember.
No rules.

Kafka's ``EpochState`` classes. A new object each time a role is entered: who still holds an old one
knows it by that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.address import Address
from gateway.quorum.download import Download
from gateway.quorum.voter_set import VoterNode
from kwire.uuid import ZERO_UUID, Uuid


@dataclass(slots=True, eq=False)
class Unattached:
    """Knows an epoch and nobody who can be followed in it. ``election_at``: when to stand for
    election, infinite for never.
    """

    election_at: float
    retries: int = 0  #: elections lost since a leader was known


@dataclass(slots=True, eq=False)
class Nominee:
    """Asks for votes. ``votes``: voter id -> granted, this node's own included. ``silent``: who was
    asked and did not answer.
    """

    votes: dict[int, bool]
    give_up_at: float
    retries: int
    silent: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Prospective(Nominee):
    """Asks whether it would be elected before it disturbs anybody with a new epoch (KIP-996)."""


@dataclass(slots=True, eq=False)
class Candidate(Nominee):
    """Has voted for itself in a new epoch."""


@dataclass(slots=True, eq=False)
class Follower:
    """Follows ``leader_id``. ``endpoints``: the leader's, by listener name.

    ``fetch_until``: when the leader has been silent for too long, ``timeout_s`` after it was last
    heard. ``fetched``: it has answered a Fetch of this follower. ``ended``: it has said that its
    epoch ends (EndQuorumEpoch). ``successor``: and that this node is to be elected next.
    """

    leader_id: int
    endpoints: Mapping[str, Address]
    fetch_until: float
    timeout_s: float
    fetched: bool = False
    ended: bool = False
    successor: bool = False
    leader_high_watermark: int = -1  #: as this leader last told it
    download: Download | None = None
    update_at: float = (
        math.inf
    )  #: when to compare what the quorum knows of this node with what it is
    #: as a voter of the configuration it has told this leader what it is, and was understood
    update_accepted: bool = False


@dataclass(slots=True, eq=False)
class Progress:
    """How far one replica has the leader's log. Times: monotonic seconds for rules, milliseconds
    for DescribeQuorum.
    """

    id: int
    directory_id: Uuid = ZERO_UUID
    offset: int = -1  #: -1 before its first Fetch in this epoch
    fetched_at: float = -math.inf
    fetched_ms: int = -1
    caught_up_ms: int = -1
    caught_up_at: float = -math.inf
    leader_end: int = -1  #: the leader's log end at its last Fetch
    begun: bool = False  #: knows the leader: it answered BeginQuorumEpoch, or fetched


@dataclass(slots=True, eq=False)
class DelayedFetch:
    """A Fetch that waits for something new (KIP-595, fetch purgatory)."""

    number: int
    replica: Progress | None
    request: Any  #: the FetchRequest
    partition: Any  #: its FetchPartition
    version: int
    listener: str
    until: float


@dataclass(slots=True, eq=False)
class VoterChange:
    """The one change of the voters on its way (KIP-853). ``number``: the request to be answered,
    None when that is done.

    ``offset``: of its KRAFT_VOTERS record, -1 before there is one.
    """

    kind: str
    number: int | None
    until: float
    node: VoterNode
    ack_when_committed: bool = True
    offset: int = -1


@dataclass(slots=True, eq=False)
class Leader:
    """Leads. ``start_offset``: of its LEADER_CHANGE record. ``progress``: of the other voters, by
    id.

    ``high_watermark``: -1 until a record of its own epoch is committed. ``silent_at``: when it must
    give up for want of fetches from a majority (check-quorum).
    """

    epoch: int
    start_offset: int
    began_at: float
    progress: dict[int, Progress]
    begin_at: float
    silent_at: float
    high_watermark: int = -1
    observers: dict[tuple[int, Uuid], Progress] = field(default_factory=dict)
    delayed: dict[int, DelayedFetch] = field(default_factory=dict)
    delayed_until: float = math.inf  #: never later than the first of them
    change: VoterChange | None = None
    registered: dict[int, VoterNode] = field(
        default_factory=dict
    )  #: what voters of the configuration said of themselves, by id
    removed: bool = False  #: it is committed that this node votes no more: it has to go
    uncommitted: deque[tuple[int, float]] = field(
        default_factory=deque
    )  #: (end offset, when appended)


@dataclass(slots=True, eq=False)
class Resigned:
    """Led this epoch and does not any more; never again in this epoch (KAFKA-10527).

    ``unaware``: voters that have not acknowledged EndQuorumEpoch yet. ``successors``: who should be
    elected, best first.
    """

    election_at: float
    unaware: set[int]
    successors: tuple[tuple[int, Uuid], ...] = ()


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
