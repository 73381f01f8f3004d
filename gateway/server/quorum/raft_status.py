"""Makes the ``QuorumStatus`` of a node from its log, its raft core and its driver's measures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from gateway.server.quorum.quorum_status import QuorumStatus

if TYPE_CHECKING:
    from gateway.base.address import Address
    from gateway.quorum.raft import Raft
    from gateway.server.quorum.raft_driver import RaftDriver
    from gateway.sources.quorum_log import QuorumLog


def quorum_status(
    log: QuorumLog, driver: RaftDriver, leader_address: Address | None, lacks: str | None
) -> QuorumStatus:
    """The status now. Everything is read from memory. ``lacks``: what the image lacks."""
    raft, measures = driver.raft, driver.measures
    progress = driver.policy.progress(raft, lacks)
    return QuorumStatus(
        role=_role(raft),
        epoch=raft.epoch,
        leader_id=raft.leader_id,
        leader_address=None if leader_address is None else str(leader_address),
        relays=raft.relays,
        voted_id=raft.voted_id,
        voters=progress.voters,
        measures=None if driver.policy.observes else raft.measures,
        leader_high_watermark=progress.leader_high_watermark,
        high_watermark=log.committed,
        log_end_offset=log.store.end_offset,
        log_end_epoch=raft.log.last_epoch,
        last_answer_at=progress.last_answer_at,
        last_caught_up_at=progress.last_caught_up_at,
        observes=driver.policy.observes,
        complete_since=measures.complete_since,
        problem=progress.problem,
        fetches=measures.fetches,
        fetched_records=measures.fetched_before + raft.measures.fetched_records,
        fetched_bytes=measures.fetched_bytes,
        fetch_errors=Counter(measures.request_errors),
        snapshot=measures.snapshot,
        snapshot_downloads=measures.snapshot_downloads,
        snapshot_loads=measures.snapshot_loads,
    )


def _role(raft: Raft) -> str:
    """The state as Kafka's metric ``current-state`` names it."""
    if raft.role == "follower" and not raft.is_voter:
        return "observer"
    return "voted" if raft.role == "unattached" and raft.voted_id >= 0 else raft.role
