"""Defines the positions in a checkpoint, and detects whether the present log is the one that they
refer to.

An offset alone does not show that a log was replaced. A position therefore has the cluster's id,
the topic's id and the epoch of the record before the offset too, with which KIP-320 detects
truncation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Asked for an offset: the timestamp (ms) of the record before it, None where the log lacks that.
TimeBefore = Callable[[int], int | None]
#: Asked for an epoch: (the largest epoch up to it, where that ends), (-1, -1) for one still to
#: come, None where it is unknown.
EndOfEpoch = Callable[[int], tuple[int, int] | None]


class DataLossError(RuntimeError):
    """Records that a query still had to read are gone, or belong to another log."""


@dataclass(frozen=True)
class LogState:
    """A log at one moment: its cluster and topic ids, its first offset and its end."""

    cluster_id: str
    topic_id: str
    start: int
    end: int
    leader_epoch: int = -1


@dataclass(frozen=True)
class Position:
    """Everything before ``offset`` was read; ``epoch`` is that of the record before it, -1 if there
    is none or it is unknown, and ``time`` its timestamp (ms), None likewise.

    ``first`` is where the query began, and goes into the positions up to the end of its first
    micro-batch. Spark does not store the initial offset of a Python source: if that micro-batch is
    run again, Spark asks for the initial offset again, and ``latest`` has advanced by then.
    """

    cluster_id: str
    topic_id: str
    epoch: int
    offset: int
    first: int | None = None
    time: int | None = None

    @property
    def initial(self) -> bool:
        """True if no record was read yet."""
        return self.first == self.offset

    @classmethod
    def of(cls, checkpoint: dict[str, Any]) -> Position:
        """Parse the JSON of a checkpoint. Raises ValueError for that of another source."""
        first, time = checkpoint.get("first"), checkpoint.get("time")
        try:
            return cls(
                str(checkpoint["clusterId"]),
                str(checkpoint["topicId"]),
                int(checkpoint["epoch"]),
                int(checkpoint["offset"]),
                None if first is None else int(first),
                None if time is None else int(time),
            )
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f'the checkpoint was not written by format("kwire"): {checkpoint}'
            ) from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the checkpoint."""
        position = {
            "clusterId": self.cluster_id,
            "topicId": self.topic_id,
            "epoch": self.epoch,
            "offset": self.offset,
            "first": self.first,
            "time": self.time,
        }
        return {name: value for name, value in position.items() if value is not None}


@dataclass(frozen=True)
class Loss:
    """The reason why a position is invalid, and the offset from which a query can continue."""

    sentence: str
    resume: int


def loss_at(
    position: Position,
    state: LogState,
    end_of_epoch: EndOfEpoch,
    time_before: TimeBefore = lambda _: None,
) -> Loss | None:
    """The loss if a query continues at ``position`` in the log of ``state``; None if nothing is
    lost.
    """
    for what, present, saved in (
        ("cluster", state.cluster_id, position.cluster_id),
        ("topic id", state.topic_id, position.topic_id),
    ):
        if present and saved and present != saved:
            return Loss(
                f"the checkpoint is of {what} {saved} and the server now has {what} {present}: it"
                " is another log",
                state.start,
            )
    if position.offset < state.start:
        return Loss(
            f"the log now starts at offset {state.start}: {position.offset} to {state.start - 1}"
            " are gone",
            state.start,
        )
    common = _common_end(position, state, end_of_epoch)
    if position.offset > state.end:
        return Loss(
            f"the log ends at offset {state.end}, before offset {position.offset} of the"
            " checkpoint",
            common,
        )
    if common < position.offset:
        return Loss(
            f"the log was replaced: of epoch {position.epoch} it has nothing up to offset"
            f" {position.offset} of the checkpoint",
            common,
        )
    if position.time is not None and position.offset > state.start:
        time = time_before(position.offset)
        if time is not None and time != position.time:
            return Loss(
                f"the record before offset {position.offset} is not the one that was read: the log"
                f" begins at offset {state.start} with the records of a snapshot, at offsets that"
                " others had, or it was replaced",
                state.start,
            )
    return None


def _common_end(position: Position, state: LogState, end_of_epoch: EndOfEpoch) -> int:
    """The offset up to which the log may equal what was read, at most ``position.offset``."""
    if position.epoch < 0 or position.offset <= state.start:
        return min(position.offset, state.end)
    answer = end_of_epoch(position.epoch)
    if answer is None:
        return min(position.offset, state.end)
    found, end = answer
    # The log has not reached this epoch: it began anew, and how much it shares with the old one is
    # unknown.
    return state.start if found < 0 else max(state.start, min(end, position.offset, state.end))


def epoch_before(offset: int, state: LogState, end_of_epoch: EndOfEpoch) -> int:
    """The epoch of the record before ``offset``, -1 if there is none or the server does not know
    it.
    """
    if offset <= state.start or state.leader_epoch < 0:
        return -1
    low, high = 0, state.leader_epoch
    while low < high:
        # The newest epoch is the likeliest, so it is the first to be ruled out.
        middle = high - 1 if high == state.leader_epoch else (low + high) // 2
        answer = end_of_epoch(middle)
        if answer is None:
            return -1
        if answer[1] >= offset:
            high = middle
        else:
            low = middle + 1
    return low


def slices(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """``start`` to ``end`` in at most ``count`` parts of about the same size, none of them
    empty.
    """
    total = end - start
    count = max(0, min(count, total))
    return [(start + total * n // count, start + total * (n + 1) // count) for n in range(count)]
