"""Holds one append to a partition that holds data until it is made: of a producer's batch, or of
the marker that ends a transaction. Decides by the producers of the partition whether it may be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gateway.broker.produce.refusal import BatchRefused
from gateway.broker.produce.validation import ProducedBatch
from gateway.ports.replicas import Appended
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.broker.produce.marker import Marker
    from gateway.broker.produce.producer_state import BatchSeen, ProducerStates, Verification
    from gateway.broker.replica.leader import Leader

Outcome = Appended | BatchRefused


class PartitionAppend(NamedTuple):
    """An append in the leader epoch ``epoch``; ``on_done`` gets its outcome, with
    ``until_committed`` when all replicas that are in sync have the batch.
    """

    batch: ProducedBatch
    epoch: int
    on_done: Callable[[Outcome], None]
    until_committed: bool
    verification: Verification | None = None
    marker: Marker | None = None
    transaction_version: int = 0

    def check(self, states: ProducerStates) -> BatchSeen | None:
        """Return the batch that this one repeats, None if it is new. Raises BatchRefused."""
        if self.marker is None:
            return states.check(self.batch.header, self.verification)
        states.check_marker(self.batch.header, self.marker, self.transaction_version)
        return None


def not_enough_replicas(name: str, leader: Leader) -> BatchRefused:
    """Return the outcome of an append with ``acks=all`` that is not made."""
    return BatchRefused(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{len(leader.state.isr)} replicas of {name} are in sync, and min.insync.replicas requires "
        f"{leader.min_isr} for acks=all.",
    )
