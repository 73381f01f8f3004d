"""Collects figures and problems of a quorum's node for metrics and status.

The driver updates them on the event loop; ``raft_status`` reads them. Nothing here changes what the
node does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gateway.quorum.effects import (
    AbandonSnapshot,
    Append,
    BeginSnapshot,
    InstallSnapshot,
    SnapshotChunk,
)
from gateway.server.quorum.quorum_status import SnapshotProgress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.quorum.effects import DiskEffect


@dataclass(slots=True)
class RaftDriverMetrics:
    """Figures since the start of the process. Times are s on the clock of the event loop; None:
    never.
    """

    #: Last time at which this node had a leader, if it has none now.
    led_until: float | None = None
    #: Last time at which a leader answered as the leader.
    last_answer_at: float | None = None
    #: Last time at which the log had reached the leader's high watermark.
    last_caught_up_at: float | None = None
    #: Since when that has been so, never longer ago than the limit of ``observer_watch``.
    complete_since: float | None = None
    #: Why the last request to another node failed.
    problem: str | None = None
    #: Why an observer's log cannot be written at present.
    disk_problem: str | None = None
    #: Failed requests to other nodes, by kind of error.
    request_errors: Counter[str] = field(default_factory=Counter)
    fetches: int = 0  #: successful responses to Fetch
    fetched_bytes: int = 0  #: bytes of batches and snapshots
    fetched_before: int = 0  #: records fetched by earlier cores of an observer
    snapshot_downloads: int = 0  #: downloads that were begun
    snapshot_loads: int = 0  #: snapshots with which the log was replaced
    snapshot: SnapshotProgress | None = None  #: the download in progress

    def disk_effect(self, effect: DiskEffect, *, is_leader: bool) -> None:
        """Count an effect that is about to be performed. A leader's own batches are not fetched."""
        match effect:
            case BeginSnapshot(snapshot_id):
                self.snapshot_downloads += 1
                self.snapshot = SnapshotProgress(snapshot_id.file_name, 0, 0)
            case SnapshotChunk(position, data, size) if self.snapshot is not None:
                self.fetched_bytes += len(data)
                self.snapshot = SnapshotProgress(self.snapshot.name, position + len(data), size)
            case AbandonSnapshot():
                self.snapshot = None
            case InstallSnapshot():
                self.snapshot_loads += 1
                self.snapshot = None
            case Append(_, _, data) if not is_leader:
                self.fetched_bytes += len(data)

    def reported(self, event: str, fields: Mapping[str, Any]) -> None:
        """Note the problem that an event of the raft core describes, if it describes one."""
        if event == "access denied":
            self.problem = str(fields["reason"])
        elif event == "epoch not believed":
            self.problem = (
                f"{fields['sender']} names epoch {fields['named']}, which no election can have"
                f" reached after epoch {fields['proven']}, that of the last record."
            )
        elif event == "protocol violation" or (
            # A refusal by a node that does not lead is no news while the leader does not answer.
            event == "request refused" and self.problem is None
        ):
            self.problem = f"{fields['sender']}: {fields.get('reason', fields.get('error'))}"
