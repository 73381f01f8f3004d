"""Holds appends that wait for the followers of a partition, until the records are committed
(``DelayedProduce``).

The time of a request is not its matter: who gives up has an answer of its own, and the records
stay in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gateway.broker.produce.refusal import BatchRefused
from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode

_OnDone = Callable[["Appended | BatchRefused"], None]


class CommitWaits:
    """The appends of one partition that wait, by the offset behind them."""

    def __init__(self) -> None:
        # In the order of the offsets; a batch that came twice waits behind those of its first time.
        self._waiting: deque[tuple[int, Appended, _OnDone]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: int, outcome: Appended, on_done: _OnDone) -> None:
        """Call ``on_done`` when the high watermark is at ``end_offset``."""
        self._waiting.append((end_offset, outcome, on_done))

    def commit(self, high_watermark: int, fault: ErrorCode) -> None:
        """Answer those whose records are below the high watermark; with ``fault`` if too few
        replicas have them.
        """
        while self._waiting and self._waiting[0][0] <= high_watermark:
            _, outcome, on_done = self._waiting.popleft()
            on_done(outcome if fault is ErrorCode.NONE else _refused(fault))

    def give_up(self, fault: ErrorCode) -> None:
        """Answer all: this node leads the partition no more."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, on_done in waiting:
            on_done(_refused(fault))


def _refused(fault: ErrorCode) -> BatchRefused:
    if fault is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        return BatchRefused(
            fault,
            "The records are in the leader's log, and fewer replicas than min.insync.replicas "
            "have them.",
        )
    return BatchRefused(fault, "The leader changed before the records were committed.")
