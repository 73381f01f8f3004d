"""Notes whether the leader that an observer follows still answers, and whether its log has caught
up.

An observer takes no part in elections and has no election timeout, so nothing but the time that has
passed shows that it has lost its quorum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from gateway.quorum.raft import Raft
    from gateway.server.quorum.raft_driver_metrics import RaftDriverMetrics
    from gateway.sources.quorum_log import QuorumLog

#: An observer whose leader has not answered for this time has lost its quorum, s. An election takes
#: two to four.
LOST_AFTER_S: Final = 10.0


def check_leader(raft: Raft, log: QuorumLog, measures: RaftDriverMetrics) -> bool:
    """Set ``leader_alive`` and ``caught_up`` of ``log``, and the times in ``measures``.

    True if the log has reached the leader's high watermark now.
    """
    now = trio.current_time()
    answered_at = raft.leader_answered_at
    if answered_at is not None and answered_at != measures.last_answer_at:
        measures.last_answer_at = answered_at
        measures.problem = None
    last = measures.last_answer_at
    log.leader_alive = (
        measures.disk_problem is None and last is not None and now - last <= LOST_AFTER_S
    )
    if raft.relays and not log.leader_alive and measures.problem is None:
        measures.problem = (
            f"The relay at {raft.leader_address} gets no answer of the leader itself, or follows "
            "this node in a circle."
        )
    if not log.leader_alive or not 0 <= raft.leader_high_watermark <= log.committed:
        return False
    log.caught_up = True
    before = measures.last_caught_up_at
    if before is None or now - before > LOST_AFTER_S:
        measures.complete_since = now
    measures.last_caught_up_at = now
    return True
