"""Defines the status of a quorum's node at one moment, as metrics and ``/status`` show it.

``gateway.server.quorum.raft_status`` makes it. Times are seconds on the clock of the event loop;
counts begin with the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from gateway.quorum.raft_metrics import RaftMetrics

#: The values of ``role``: those of ``current-state`` in Kafka's ``KafkaRaftMetrics``.
ROLES: Final = (
    "leader",
    "candidate",
    "prospective",
    "resigned",
    "voted",
    "follower",
    "observer",
    "unattached",
)


class SnapshotProgress(NamedTuple):
    """A snapshot that this node fetches: the name of its file, and bytes.

    ``position``: bytes fetched so far. ``size``: 0 until the leader has sent it.
    """

    name: str
    position: int
    size: int

    def __str__(self) -> str:
        if not self.size:
            return f"{self.position} bytes"
        percent = 100 * self.position // self.size
        return f"{self.position} of {self.size} bytes, {percent} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """The status of one node, voter or observer, of its log, and of the leader it follows."""

    role: str  #: one of ``ROLES``
    epoch: int  #: the newest that this node knows
    leader_id: int  #: -1: unknown
    leader_address: str | None  #: HOST:PORT of the leader's controller listener, or of a relay's
    relays: int  #: between this observer and the leader; 0: it follows the leader itself
    voted_id: int  #: the candidate that this node voted for in the epoch; -1: none
    voters: Sequence[int]  #: ids, ascending; empty: unknown
    #: Elections, commits and appended records; None for an observer, which has none of them.
    measures: RaftMetrics | None

    leader_high_watermark: int  #: the newest that a leader has sent; -1: none so far
    high_watermark: int  #: the offset below which clients may read
    log_end_offset: int  #: of this node's log, uncommitted records included
    log_end_epoch: int  #: of the last batch of this node's log

    last_answer_at: float | None  #: when this node last had a leader, or its answer; None: never
    last_caught_up_at: float | None  #: when clients could last read every committed record
    observes: bool  #: the node follows the quorum without a vote
    #: Of an observer: the first time after which it has caught up again and again; None: never.
    complete_since: float | None
    problem: str | None  #: a sentence: why there is no leader, or no progress

    fetches: int  #: successful responses to Fetch
    fetched_records: int  #: records appended as a follower
    fetched_bytes: int  #: bytes of batches and snapshots that leaders sent
    fetch_errors: Mapping[str, int]  #: failed requests by kind, which is never a peer's text
    snapshot: SnapshotProgress | None  #: the download in progress
    snapshot_downloads: int  #: downloads that were begun
    snapshot_loads: int  #: snapshots with which the log was replaced
