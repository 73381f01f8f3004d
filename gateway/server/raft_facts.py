"""Reads the state of a quorum's node, voter or observer, for metrics and status.

Implements ``UpstreamFacts`` of ``gateway.server.management``. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from gateway.address import Address
    from gateway.quorum.measures import Measures
    from gateway.quorum.raft import Raft
    from gateway.server.management.facts import SnapshotProgress
    from gateway.server.raft_driver import RaftDriver
    from gateway.sources.quorum_log import QuorumLog


class RaftFacts:
    """The state of one node. Every property is read from memory."""

    def __init__(
        self, log: QuorumLog, driver: RaftDriver, leader_address: Callable[[], Address | None]
    ) -> None:
        self._log = log
        self._observes = log.store.observes
        self._driver = driver
        self._leader_address = leader_address

    @property
    def _raft(self) -> Raft:
        # Not kept: an observer's driver replaces its core after a failure.
        return self._driver.raft

    @property
    def role(self) -> str:
        """The state as Kafka's metric ``current-state`` names it: leader, candidate, prospective,
        voted, follower, observer, unattached, resigned.
        """
        role = self._raft.role
        if role == "follower" and not self._raft.is_voter:
            return "observer"
        return "voted" if role == "unattached" and self._raft.voted_id >= 0 else role

    @property
    def voted_id(self) -> int:
        """The candidate that this node voted for in this epoch; -1: none."""
        return self._raft.voted_id

    @property
    def measures(self) -> Measures | None:
        """Figures of elections, commits and records; None for an observer of another quorum, which
        takes no part in either.
        """
        return None if self._observes else self._raft.measures

    @property
    def leader_id(self) -> int:
        """Id of the leader, -1 while none is known."""
        return self._raft.leader_id

    @property
    def leader_address(self) -> str | None:
        """HOST:PORT of the leader's controller listener; None while it is not known."""
        address = self._leader_address()
        return None if address is None else str(address)

    @property
    def epoch(self) -> int:
        """The newest epoch of the quorum that this node knows."""
        return self._raft.epoch

    @property
    def voters(self) -> Sequence[int]:
        """Ids of the voters, ascending."""
        return sorted(self._raft.reported_voters if self._observes else self._raft.voters.nodes)

    @property
    def leader_high_watermark(self) -> int:
        """The newest high watermark that this node knows of; -1 before the first one."""
        return self._raft.leader_high_watermark if self._observes else self._raft.high_watermark

    @property
    def high_watermark(self) -> int:
        """The offset below which clients may read."""
        return self._log.committed

    @property
    def log_end_offset(self) -> int:
        """The end of this node's log, uncommitted records included."""
        return self._log.store.end_offset

    @property
    def log_end_epoch(self) -> int:
        """Epoch of the last batch of this node's log."""
        return self._raft.log.last_epoch

    @property
    def last_answer_at(self) -> float | None:
        """Time at which this node last had a leader, s on the clock of the event loop."""
        if self._observes:
            return self._driver.measures.last_answer_at
        return trio.current_time() if self._raft.leader_id >= 0 else self._driver.measures.led_until

    @property
    def last_caught_up_at(self) -> float | None:
        """Time at which clients could last read every record known to be committed, s."""
        return self._driver.measures.last_caught_up_at if self._observes else self.last_answer_at

    @property
    def fetches(self) -> int:
        """Successful responses to Fetch as a follower, since the start."""
        return self._driver.measures.fetches

    @property
    def fetched_records(self) -> int:
        """Records appended as a follower, since the start."""
        return self._driver.measures.fetched_before + self._raft.measures.fetched_records

    @property
    def fetched_bytes(self) -> int:
        """Bytes of batches and snapshots fetched from leaders, since the start."""
        return self._driver.measures.fetched_bytes

    @property
    def fetch_errors(self) -> Mapping[str, int]:
        """Failed requests to other nodes, by kind of error."""
        return self._driver.measures.request_errors

    @property
    def snapshot_downloads(self) -> int:
        """Downloads of snapshots that were begun, since the start."""
        return self._driver.measures.snapshot_downloads

    @property
    def snapshot_loads(self) -> int:
        """Snapshots with which the log was replaced, since the start."""
        return self._driver.measures.snapshot_loads

    @property
    def snapshot(self) -> SnapshotProgress | None:
        """The download in progress, if there is one."""
        return self._driver.measures.snapshot

    @property
    def problem(self) -> str | None:
        """The reason why there is no leader or no progress, as far as this node knows."""
        if self._observes:
            return self._driver.measures.disk_problem or self._driver.measures.problem
        return self._driver.measures.problem if self._raft.leader_id < 0 else None
