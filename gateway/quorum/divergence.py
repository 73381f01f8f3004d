"""Decides how far a log is cut back when the leader reports that the two logs diverge (KIP-595).

Follows ``ReplicatedLog.truncateToEndOffset``. Changes nothing and knows no message: the caller
cuts, and refuses to cut below its high watermark.
"""

from __future__ import annotations

from typing import Protocol

from gateway.quorum.partition import Position
from gateway.quorum.response_checks import InvalidResponse


class EpochsOfLog(Protocol):
    """The methods of ``replicated_log.ReplicatedLog`` that the rule reads."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, else of the snapshot at which the log starts, else 0."""
        ...

    @property
    def latest_snapshot(self) -> tuple[int, int] | None:
        """(end offset, epoch) of the newest complete snapshot, None without one."""
        ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As ``gateway.base.leader_epochs.end_offset_for``."""
        ...


def truncation_offset(log: EpochsOfLog, leaders: Position) -> int:
    """Return the offset to cut ``log`` back to, given that the leader's epoch ``leaders.epoch``
    ends at ``leaders.offset``.

    It is the end of the largest local epoch not above the leader's. (The text of KIP-595 says "less
    than", which discards committed records whenever both logs hold the epoch.) The smaller of both
    ends counts only when the local log holds that very epoch: the leader's end offset says nothing
    about an older epoch, in whose middle it may lie, so that a log with the epochs 1:0 and 3:10 and
    the leader's (epoch 2, end 5) is cut to 10. The next Fetch then compares the older epoch. The
    result is always where a local batch begins, or the leader's end of a common epoch. Raises
    InvalidResponse for an epoch that the Fetch did not name: a leader answers with an epoch up to
    that of the last fetched record.
    """
    # A truncation to the log's own end would change nothing, and the same Fetch would be sent for
    # ever.
    if leaders.epoch > log.last_epoch:
        raise InvalidResponse(
            f"logs that diverge in epoch {leaders.epoch}, when the local log ends in epoch "
            f"{log.last_epoch}"
        )
    epoch, end_offset = log.end_offset_for_epoch(leaders.epoch)
    # A log without a batch has no epochs, and starts at a committed snapshot: nothing can be cut.
    if epoch < 0:
        end_offset = log.start_offset
    # Seeded bug in tests/sim: ``truncates_to_the_leaders_offset``.
    return end_offset if epoch < leaders.epoch else min(end_offset, leaders.offset)
