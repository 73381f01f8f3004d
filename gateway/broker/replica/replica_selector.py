"""Selects the replica from which a consumer is to fetch (KIP-392; ``RackAwareReplicaSelector``,
``ReplicaManager.findPreferredReadReplica``).

The leader of the partition asks; it reads no log and knows no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class ReadReplica(NamedTuple):
    """A follower in the ISR that has the offset from which a consumer fetches. ``caught_up_at``:
    the time in s at which it is known to have had the whole log.
    """

    broker_id: int
    end_offset: int
    caught_up_at: float


def most_caught_up(replicas: Iterable[ReadReplica]) -> int | None:
    """Return the broker id of the replica with the longest log, of several the one that had all of
    it last, then the largest id; None without replicas.
    """
    found = max(
        replicas, key=lambda one: (one.end_offset, one.caught_up_at, one.broker_id), default=None
    )
    return None if found is None else found.broker_id
