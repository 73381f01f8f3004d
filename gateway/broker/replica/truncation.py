"""Decides how far a follower cuts its log back when the leader's log has another history.

It changes nothing. Source: ``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, 279, 320).
"""

from __future__ import annotations

from gateway.base.leader_epochs import Entries, end_offset_for


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
