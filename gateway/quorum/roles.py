"""Defines the roles of a node, one class for each, with the state that only that role has.

They hold no rules. A node gets a new object each time it enters a role, so that a callback with an
old object can tell that the role is over. Follows Kafka's ``EpochState`` classes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.base.address import Address
from gateway.quorum.download import Download
from gateway.quorum.voter_set import VoterNode
from kwire.uuid import ZERO_UUID, Uuid


@dataclass(slots=True, eq=False)
class Unattached:
    """The node knows an epoch, but no leader to follow. It campaigns at ``election_at``, s;
    infinity: never.
    """

    election_at: float
    retries: int = 0  #: elections lost since a leader was known


@dataclass(slots=True, eq=False)
class Nominee:
    """Asks for votes. ``votes``: voter id -> granted, this node's own included. ``silent``: voters
    that did not answer.
    """

    votes: dict[int, bool]
    give_up_at: float
    retries: int
    silent: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Prospective(Nominee):
    """Asks whether it would be elected, before it begins a new epoch (KIP-996)."""


@dataclass(slots=True, eq=False)
class Candidate(Nominee):
    """Has voted for itself in a new epoch."""


@dataclass(slots=True, eq=False)
class Follower:
    """Follows ``leader_id``. ``endpoints``: the leader's, by listener name.

    ``fetch_until``: the end of the fetch timeout, ``timeout_s`` after the leader's last response.
    ``fetched``: the leader has answered a Fetch. ``ended``: it has sent EndQuorumEpoch.
    ``successor``: and named this node as the first successor in it.
    """

    leader_id: int
    endpoints: Mapping[str, Address]
    fetch_until: float
    timeout_s: float
    fetched: bool = False
    ended: bool = False
    successor: bool = False
    leader_high_watermark: int = -1  #: the last one that this leader reported
    download: Download | None = None
    #: When to compare this node's entry in the voter set with the node itself.
    update_at: float = math.inf
    #: The leader of a static quorum has answered UpdateRaftVoter for good.
    update_accepted: bool = False


@dataclass(slots=True, eq=False)
class Progress:
    """The log end of one replica as the leader knows it (``ReplicaState``).

    Times in monotonic seconds are for rules, those in milliseconds for DescribeQuorum.
    """

    id: int
    directory_id: Uuid = ZERO_UUID
    offset: int = -1  #: -1 before its first Fetch in this epoch
    fetched_at: float = -math.inf
    fetched_ms: int = -1
    caught_up_ms: int = -1
    caught_up_at: float = -math.inf
    leader_end: int = -1  #: the leader's log end at its last Fetch
    begun: bool = False  #: it knows the leader: it answered BeginQuorumEpoch, or fetched


@dataclass(slots=True, eq=False)
class DelayedFetch:
    """A Fetch in the purgatory: it waits for records or a new high watermark (KIP-595)."""

    number: int
    replica: Progress | None
    request: Any  #: the FetchRequest
    partition: Any  #: its FetchPartition
    version: int
    listener: str
    until: float


@dataclass(slots=True, eq=False)
class VoterChange:
    """The one pending change of the voters (KIP-853). ``number``: the request to be answered, None
    once it was.

    ``offset``: of its KRAFT_VOTERS record, -1 before that is appended.
    """

    kind: str
    number: int | None
    until: float
    node: VoterNode
    ack_when_committed: bool = True
    offset: int = -1


@dataclass(slots=True, eq=False)
class Leader:
    """Leads ``epoch`` (``LeaderState``). ``start_offset``: of its LEADER_CHANGE record.

    ``progress``: of the other voters, by id. ``high_watermark``: -1 until a record of its own epoch
    is committed. ``silent_at``: when it resigns for lack of fetches from a majority (check-quorum).
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
    delayed_until: float = math.inf  #: at or before the end of the first of them
    change: VoterChange | None = None
    #: The entries that the voters of a static quorum sent in this epoch, by id.
    registered: dict[int, VoterNode] = field(default_factory=dict)
    removed: bool = False  #: the record that removes this node from the voters is committed
    #: (end offset, when appended) of each append that is not committed yet.
    uncommitted: deque[tuple[int, float]] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class Resigned:
    """Led this epoch and has resigned; it never leads this epoch again (KAFKA-10527).

    ``unaware``: voters that have not acknowledged EndQuorumEpoch yet. ``successors``: preferred
    successors, best first.
    """

    election_at: float
    unaware: set[int]
    successors: tuple[tuple[int, Uuid], ...] = ()


Role = Unattached | Prospective | Candidate | Follower | Leader | Resigned
