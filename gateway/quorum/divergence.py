"""Where two logs part: how far our log must be cut back when the leader says that they differ. Knows no messages."""

from __future__ import annotations

from typing import Protocol

from gateway.quorum.requests import Position


class ReplicatedLog(Protocol):
    """The local log as the observer sees it; it changes only by the observer's effects."""

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
        """(the largest epoch known that is not above ``epoch``, where it ends); negative numbers where there is none."""
        ...


def truncation_offset(log: ReplicatedLog, leaders: Position) -> int:
    """The largest offset up to which the log may still agree with the leader's, whose epoch ``leaders.epoch`` ends at
    ``leaders.offset`` (``ReplicatedLog.truncateToEndOffset``, KIP-595).

    It is the end of our largest epoch not *above* the leader's, and never past the end that the leader gave. (The text of
    the KIP says "less than", which would throw away committed records whenever both logs have the epoch.)
    """
    if leaders.epoch >= log.last_epoch:
        ours = log.end_offset
    else:
        epoch, ours = log.end_offset_for_epoch(leaders.epoch)
        if epoch < 0 or ours < 0:
            ours = log.start_offset
    return min(ours, leaders.offset)
