"""Decides how far a follower cuts its log back when the leader's log has another history, and when
it begins its log anew because no epoch can tell.

It changes nothing. Source: ``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, 279, 320).
:func:`begins_anew` has no counterpart in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.base.leader_epochs import Entries, end_offset_for

if TYPE_CHECKING:
    from gateway.broker.replica.followed import Position


def truncation_target(
    epochs: Entries, end_offset: int, leaders_epoch: int, leaders_end: int
) -> int:
    """Return the offset at which a log with ``epochs`` that ends at ``end_offset`` is cut: the
    leader's largest epoch not above the follower's last one is ``leaders_epoch``, and ends at
    ``leaders_end``.

    Where the follower does not have that very epoch, the leader's end says nothing of the older one
    that it has: it is kept whole, and the next Fetch compares it.
    """
    epoch, own_end = end_offset_for(epochs, leaders_epoch, end_offset)
    if 0 <= epoch < leaders_epoch:
        return min(own_end, end_offset)
    # Without epochs there are no batches to compare, and the leader's end is all that is known.
    return min(leaders_end, end_offset, own_end if epoch >= 0 else end_offset)


def begins_anew(position: Position, committed: int, leader_epoch: int, leaders_start: int) -> bool:
    """Return whether a follower at ``position`` drops its log before it appends what the leader has
    from ``leaders_start`` on.

    The leader has deleted every record that the follower has, and with them the epochs by which the
    two logs are compared. Records that the follower does not know as committed may be of another
    history. No consumer reads them, but they say of a producer that a batch is there which is not.
    This is not to be asked where the leader says that it has compared the logs before.
    """
    is_left_nothing = committed < position.end_offset <= leaders_start
    return is_left_nothing and position.epoch < leader_epoch
