"""Serves a log that another process of this host writes, up to the high watermark that it tells.

The other process is the node that this worker belongs to: both read the same files from the page
cache, and no record is copied. Records below the high watermark never change, so what is scanned
after the node told it is what the node serves. Following is in ``gateway.log.reading.follower``.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.log.files.problem import Problem
from gateway.log.reading.follower import DirectoryFollower
from gateway.ports.services import State
from gateway.sources.committed_view import up_to_high_watermark
from gateway.sources.log_partition import LogPartition


@dataclass(frozen=True, slots=True)
class LogState:
    """Facts of a log that are not in its files, at one moment.

    ``leader_epoch`` as in ``gateway.ports.services.Partition``.
    """

    high_watermark: int
    leader_epoch: int
    state: State


class FollowedLog(LogPartition):
    """``gateway.ports.services.Partition`` over a directory of segments.

    Whenever the node tells other facts, the caller runs :meth:`scan` in a thread, one at a time,
    and then :meth:`publish` on the event loop with the facts from before the scan.
    """

    def __init__(
        self, directory: str, *, snapshot_prefix: bool, cluster_id: str, log_dir: str
    ) -> None:
        super().__init__(cluster_id=cluster_id, log_dir=log_dir)
        self._follower = DirectoryFollower(directory, snapshot_prefix=snapshot_prefix)
        self._facts = LogState(0, -1, State.LOADING)
        self._damage: Problem | None = None

    def scan(self) -> None:
        """Scan everything that the files have now."""
        while self._follower.step():
            pass

    def publish(self, facts: LogState) -> None:
        """Serve what was scanned, up to the high watermark of ``facts``."""
        view = self._follower.view
        if view is None or self._follower.unreachable is not None:
            return
        try:
            visible = up_to_high_watermark(view, facts.high_watermark)
        except OSError as error:
            why = error.strerror or str(error)
            self._damage = Problem(str(error.filename or self.log_dir), -1, why)
            return
        self._damage = view.broken
        old, old_facts = self.served, self._facts
        if visible.end_offset < old.end_offset:
            return  # a scan that met a change of the files: the next one finds them whole
        self._facts = facts
        moved = (visible.start_offset, visible.end_offset) != (old.start_offset, old.end_offset)
        self.serve(visible, notify=moved or facts != old_facts)

    @property
    def committed(self) -> int:
        """One past the last record that is committed and can be read here."""
        return self.served.end_offset

    @property
    def state(self) -> State:
        """The node's, or BROKEN where this process cannot read the files."""
        is_read = self._damage is None and self._follower.unreachable is None
        return self._facts.state if is_read else State.BROKEN

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The current faults of the files."""
        found = (self._follower.unreachable, self._damage)
        return tuple(problem for problem in found if problem is not None)

    @property
    def leader_epoch(self) -> int:
        """The node's at the time of the high watermark."""
        return max(self._facts.leader_epoch, self.served.epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """As in Kafka; an epoch that has committed nothing yet ends at the log's end."""
        epochs = self.served.epochs
        if epochs and epochs[-1][0] < epoch <= self.leader_epoch:
            return epochs[-1][0], self.served.end_offset
        return self.served.end_offset_for_epoch(epoch)
