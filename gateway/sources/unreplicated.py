"""Answers for a partition without followers what ``gateway.ports.services.Partition`` tells of
replicas.

``DataPartition`` replaces the answers: its broker knows the replicas of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.broker.replica.replica_selector import ReadReplica
    from gateway.ports.services import ReplicaFetch


class Unreplicated:
    """The part of a ``Partition`` that is about followers."""

    @property
    def is_lagging(self) -> bool:
        """As in ``Partition``: never, as there is no other leader."""
        return False

    def note_fetch(self, fetch: ReplicaFetch) -> ErrorCode:
        """As in ``Partition``: no broker is a follower."""
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def has_compared(self, broker_id: int) -> bool:
        """As in ``Partition``: no broker is a follower."""
        return False

    def read_replicas(self, offset: int) -> Sequence[ReadReplica]:
        """As in ``Partition``: consumers read from this node alone."""
        return ()
