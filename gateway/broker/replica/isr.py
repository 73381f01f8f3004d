"""The in-sync replicas of a partition as its leader knows them: those that the controller has
committed, and a change that it was asked for (KIP-497; ``PartitionState``).

While a change is not committed, its outcome is not known. The leader counts the replicas of either
outcome for the high watermark, the maximal ISR, so that nothing is committed that one of them does
not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class InSyncReplica(NamedTuple):
    """A member of a requested ISR, and the broker epoch with which it fetches, -1 if that is not
    known (KIP-903).
    """

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class CommittedIsr:
    """The state that the controller has decided; 0 is RECOVERED (``LeaderRecoveryState``)."""

    isr: frozenset[int]
    recovery_state: int = 0

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that count for the high watermark."""
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A change of the ISR that the leader asks the controller for, and what it changes. Compared by
    identity: an answer counts for the proposal that was sent, and for no other.
    """

    leader_epoch: int
    partition_epoch: int
    requested: tuple[InSyncReplica, ...]
    committed: CommittedIsr
    recovery_state: int = 0

    @property
    def isr(self) -> frozenset[int]:
        """The committed ISR: the proposed one may never be."""
        return self.committed.isr

    @property
    def maximal(self) -> frozenset[int]:
        """The replicas that count for the high watermark: those that may be added from now on,
        those that may be removed until they are.
        """
        return self.committed.isr | {one.broker_id for one in self.requested}

    @property
    def is_expansion(self) -> bool:
        """Whether a replica is added."""
        return len(self.requested) > len(self.committed.isr)


class Altered(NamedTuple):
    """The state of a partition in the controller's answer."""

    leader_epoch: int
    partition_epoch: int
    isr: frozenset[int]
    recovery_state: int
