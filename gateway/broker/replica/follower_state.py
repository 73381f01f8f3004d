"""Keeps what the leader of a partition knows of one follower: how far it has fetched, and when it
had everything (``Replica``, ``ReplicaState``).

It decides nothing. Times are in s of any clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: An offset that is not known, as that of a follower that has not fetched since the epoch began.
UNKNOWN: Final = -1
_NEVER: Final = float("-inf")


class Contact:
    """The time of the newest Fetch in a session of a follower.

    A request of a session leaves out partitions whose follower has everything, and counts as a
    Fetch of them all the same (KIP-227).
    """

    __slots__ = ("at",)

    def __init__(self, at: float) -> None:
        self.at = at


@dataclass(slots=True)
class FollowerState:
    """A follower of the assignment, in the ISR or not, in one epoch of its leader."""

    broker_id: int
    log_start_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    #: Where the leader's log ended at the newest Fetch, and when that was.
    leader_end_offset: int = UNKNOWN
    fetched_at: float = _NEVER
    #: The largest time at which the follower is known to have had the whole log.
    caught_up_at: float = _NEVER
    #: Of the newest Fetch; None before the first, -1 if the request has none.
    broker_epoch: int | None = None
    contact: Contact | None = None
    #: The leader has compared the follower's log with its own in this epoch, and the follower has
    #: appended nothing but the leader's records since.
    is_compared: bool = False

    def fetched(
        self,
        offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        contact: Contact,
        *,
        is_compared: bool,
    ) -> None:
        """The follower has fetched from ``offset``, so it has everything below. ``is_compared``:
        by the epoch of the record before it, or the follower has no record.
        """
        now = contact.at
        if offset >= leader_end_offset:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self.leader_end_offset:
            # It has what there was at the Fetch before this one.
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        # A process that was started since may have followed an older leader first.
        is_same = UNKNOWN != broker_epoch == self.broker_epoch
        self.is_compared = is_compared or (self.is_compared and is_same)
        self.end_offset, self.log_start_offset = offset, log_start_offset
        self.leader_end_offset = max(self.leader_end_offset, leader_end_offset)
        self.fetched_at, self.broker_epoch, self.contact = now, broker_epoch, contact

    def heard_of(self, leader_end_offset: int) -> None:
        """Count the requests of the session that have left the partition out: before the leader's
        log grows, and before it is asked whether the follower is in sync.
        """
        if self.contact is not None and self.end_offset >= leader_end_offset:
            self.fetched_at = max(self.fetched_at, self.contact.at)
            self.caught_up_at = max(self.caught_up_at, self.contact.at)

    def is_caught_up(self, leader_end_offset: int, now: float, lag_s: float) -> bool:
        """Whether the follower has everything, or had everything ``lag_s`` ago or later."""
        return self.end_offset == leader_end_offset or now - self.caught_up_at <= lag_s
