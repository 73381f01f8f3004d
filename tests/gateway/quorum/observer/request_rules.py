"""States which requests an observer may send, given its log and the model quorum."""

from __future__ import annotations

from collections import deque
from typing import Any

from kwire.message import Message
from kwire.messages.fetch_request import FetchRequest
from kwire.messages.fetch_snapshot_request import FetchSnapshotRequest
from tests.gateway.quorum.observer.process import require

#: Requests in a second without progress of the log, the high watermark or a snapshot.
REQUESTS_MAX = 20


class RequestRate:
    """Counts requests since the last progress; an observer never sends many of them in a second."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._reached: object = None

    def clear(self) -> None:
        """Begin anew, with a new process."""
        self._recent.clear()

    def count(self, process: Any, now: float) -> None:
        """Count one request. Raises Violation if there are too many."""
        log, part = process.log, process.part
        reached = (
            log.start_offset,
            log.end_offset,
            log.last_epoch,
            process.shown,
            part and (part[0], len(part[1])),
        )
        if reached != self._reached:
            self._reached = reached
            self._recent.clear()
        self._recent.append(now)
        while self._recent[0] < now - 1.0:
            self._recent.popleft()
        require(len(self._recent) <= REQUESTS_MAX, "an observer never spins")


def check_request(simulation: Any, request: Message) -> None:
    """Raise Violation if a correct observer does not send this request now."""
    log = simulation.process.log
    if isinstance(request, FetchRequest):
        partition = request.topics[0].partitions[0]
        require(partition.high_watermark >= 0, "the high watermark -1 is never told")
        require(
            partition.last_fetched_epoch <= partition.current_leader_epoch,
            "no log is ahead of its leader's epoch",
        )
        at = (partition.fetch_offset, partition.last_fetched_epoch)
        history = (
            simulation.history
            and partition.fetch_offset == max(1, log.end_offset)
            and log.end_offset <= simulation.quorum.committed_end
        )
        require(
            at == (log.end_offset, log.last_epoch) or history,
            "what is fetched is what follows the log's end",
        )
        id = max(request.replica_id, request.replica_state.replica_id)
        require(id not in simulation.quorum.voters, "no voter's id is used")
    if isinstance(request, FetchSnapshotRequest):
        require(len(request.topics) == 1, "a FetchSnapshot has a topic")
        asked, part = request.topics[0].partitions[0], simulation.process.part
        require(
            part is not None and asked.position == len(part[1]),
            "a snapshot goes on where it is",
        )
        assert part is not None
        require(
            asked.position < part[2] or not part[2],
            "nothing is asked for behind a snapshot's end",
        )
