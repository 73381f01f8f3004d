"""Reports the state of a quorum's node, voter or observer, to the management port
(``UpstreamFacts``). Changes nothing.
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
    """Of one node; reading costs nothing."""

    def __init__(
        self, log: QuorumLog, driver: RaftDriver, leader_address: Callable[[], Address | None]
    ) -> None:
        self._log = log
        self._observes = log.store.observes
        self._driver = driver
        self._leader_address = leader_address

    @property
    def _raft(self) -> Raft:
        return self._driver.raft  # an observer's may be another one after a failure

    @property
    def role(self) -> str:
        """Kafka's word: leader, candidate, prospective, voted, follower, observer, unattached,
        resigned.
        """
        role = self._raft.role
        if role == "follower" and not self._raft.is_voter:
            return "observer"
        return "voted" if role == "unattached" and self._raft.voted_id >= 0 else role

    @property
    def voted_id(self) -> int:
        """Whom this node voted for in this epoch, -1 nobody."""
        return self._raft.voted_id

    @property
    def measures(self) -> Measures | None:
        """Elections, commits, records; None for an observer of another quorum, which elects nobody
        and commits nothing.
        """
        return None if self._observes else self._raft.measures

    @property
    def leader_id(self) -> int:
        """-1 while none is known."""
        return self._raft.leader_id

    @property
    def leader_address(self) -> str | None:
        """host:port of the leader's listener for controllers, where it is known."""
        address = self._leader_address()
        return None if address is None else str(address)

    @property
    def epoch(self) -> int:
        """Of the quorum, as far as this node knows."""
        return self._raft.epoch

    @property
    def voters(self) -> Sequence[int]:
        """Ids of the voters."""
        return sorted(self._raft.reported_voters if self._observes else self._raft.voters.nodes)

    @property
    def leader_high_watermark(self) -> int:
        """What is committed, as far as this node knows; -1 before."""
        return self._raft.leader_high_watermark if self._observes else self._raft.high_watermark

    @property
    def high_watermark(self) -> int:
        """What clients may see."""
        return self._log.committed

    @property
    def log_end_offset(self) -> int:
        """Of this node's log, what is not committed included."""
        return self._log.store.end_offset

    @property
    def log_end_epoch(self) -> int:
        """Of its last batch."""
        return self._raft.log.last_epoch

    @property
    def last_answer_at(self) -> float | None:
        """When there last was a leader, on the loop's clock, s."""
        if self._observes:
            return self._driver.last_answer_at
        return trio.current_time() if self._raft.leader_id >= 0 else self._driver.led_until

    @property
    def last_caught_up_at(self) -> float | None:
        """When everything known to be committed could be seen here."""
        return self._driver.last_caught_up_at if self._observes else self.last_answer_at

    @property
    def fetches(self) -> int:
        """Answers to Fetch that were taken as a follower, since the start."""
        return self._driver.fetches

    @property
    def fetched_records(self) -> int:
        """Offsets appended as a follower, since the start."""
        return self._driver.fetched_before + self._raft.measures.fetched_records

    @property
    def fetched_bytes(self) -> int:
        """Bytes of batches and snapshots that came from leaders, since the start."""
        return self._driver.fetched_bytes

    @property
    def fetch_errors(self) -> Mapping[str, int]:
        """Requests to other nodes that failed, by kind."""
        return self._driver.request_errors

    @property
    def snapshot_downloads(self) -> int:
        """Snapshots that this node began to fetch, since the start."""
        return self._driver.snapshot_downloads

    @property
    def snapshot_loads(self) -> int:
        """Snapshots that the log was begun anew from, since the start."""
        return self._driver.snapshot_loads

    @property
    def snapshot(self) -> SnapshotProgress | None:
        """The snapshot that is being fetched."""
        return self._driver.snapshot

    @property
    def problem(self) -> str | None:
        """Why there is no leader, as far as this node knows."""
        if self._observes:
            return self._driver.disk_problem or self._driver.problem
        return self._driver.problem if self._raft.leader_id < 0 else None
