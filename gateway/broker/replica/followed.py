"""Holds what a fetcher knows of a partition that it follows, and what it asks of the log.

It decides nothing. Source: ``PartitionFetchState``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kwire.messages.fetch_request import FetchPartition

if TYPE_CHECKING:
    from kwire.uuid import Uuid


class Position(NamedTuple):
    """Where the log of a replica begins and ends, and its newest leader epoch; -1 without one."""

    start_offset: int
    end_offset: int
    epoch: int


class Status(enum.Enum):
    """The next thing that happens to a partition."""

    READY = "it is fetched"
    BUSY = "its log carries out a step"
    WAITING = "it is fetched after a pause"
    STOPPED = "it is not fetched before the leader has another epoch"


class Followed:
    """A partition in one epoch of its leader. ``wire`` is its part of a Fetch request."""

    __slots__ = ("asked", "error", "in_session", "key", "leaders_end", "status", "topic_id", "wire")

    def __init__(
        self, topic_id: Uuid, index: int, leader_epoch: int, position: Position, max_bytes: int
    ) -> None:
        self.topic_id = topic_id
        #: Topic id and index.
        self.key = topic_id, index
        self.status = Status.READY
        #: The leader has the partition in the session, perhaps at an older position.
        self.in_session = False
        #: The leader has it in the session at this position.
        self.asked = False
        #: The leader's last error code, 0 after an answer without one.
        self.error = 0
        #: The high watermark of the leader, as of its last response; -1 before one.
        self.leaders_end = -1
        self.wire = FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=position.end_offset,
            last_fetched_epoch=position.epoch,
            log_start_offset=position.start_offset,
            partition_max_bytes=max_bytes,
        )

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that is followed."""
        return self.wire.current_leader_epoch

    @property
    def position(self) -> Position:
        """The position of the log, as of the last step."""
        wire = self.wire
        return Position(wire.log_start_offset, wire.fetch_offset, wire.last_fetched_epoch)

    @property
    def lag(self) -> int:
        """Committed records of the leader that the log lacks, as of the leader's last response."""
        return max(0, self.leaders_end - self.wire.fetch_offset)

    def move(self, position: Position) -> None:
        """The log is at ``position``; if it was not before, the leader is to hear of it."""
        wire = self.wire
        if position != (wire.log_start_offset, wire.fetch_offset, wire.last_fetched_epoch):
            self.asked = False
            wire.log_start_offset, wire.fetch_offset, wire.last_fetched_epoch = position


class Append(NamedTuple):
    """Append ``records`` (None or empty for news without records), and take over the leader's high
    watermark and log start. ``is_compared``: the leader says that all records of the follower are
    its own, though it may have deleted those that tell.
    """

    followed: Followed
    records: Any
    high_watermark: int
    log_start_offset: int
    is_compared: bool = False


class Truncate(NamedTuple):
    """Cut the log by :func:`gateway.broker.replica.truncation.truncation_target`."""

    followed: Followed
    leaders_epoch: int
    leaders_end: int


class Locate(NamedTuple):
    """Ask the leader where its log begins and ends: the position is outside of it."""

    followed: Followed


class CutTo(NamedTuple):
    """Cut the log at ``offset``, behind which the leader has nothing."""

    followed: Followed
    offset: int


class StartAt(NamedTuple):
    """Drop everything, and begin at ``offset``, where the leader's log begins."""

    followed: Followed
    offset: int


Step = Append | Truncate | Locate | CutTo | StartAt
