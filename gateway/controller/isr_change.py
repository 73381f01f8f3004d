"""Checks and makes the ISR change that a leader requests, for AlterPartition and AlterIsr.

Follows ``ReplicationControlManager.validateAlterPartitionData``, in the order of its checks. It
knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.errors import ApiError
from gateway.controller.partition_change import RECOVERED, RECOVERING, Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.request_context import ControllerRequestContext
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.messages.partition_record import PartitionRecord

#: The errors in the forms without topic ids, for those that came with topic ids (KIP-841): their
#: clients do not know them.
OLD_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INELIGIBLE_REPLICA: ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.NEW_LEADER_ELECTED: ErrorCode.FENCED_LEADER_EPOCH,
}
#: The request has no broker epoch, so none is compared (``ineligibleReplicasForIsr``).
_ANY_EPOCH = -1


class Replica(NamedTuple):
    """A member of the requested ISR: the broker, and its epoch when it caught up (KIP-903)."""

    broker_id: int
    broker_epoch: int = _ANY_EPOCH


class NewState(NamedTuple):
    """The ISR that a leader requests for one partition, and the epochs that it knows."""

    topic_id: Uuid
    partition_index: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[Replica]
    recovery_state: int = RECOVERED


def alter(
    broker_id: int, wanted: NewState, changes: PartitionChanges, context: ControllerRequestContext
) -> PartitionRecord:
    """Change the ISR as ``broker_id`` requests; return the partition. The record is in ``changes``.

    Raises ApiError. The change was made only where the error is NEW_LEADER_ELECTED: it completed a
    reassignment that took the leadership from ``broker_id``.
    """
    if wanted.topic_id not in context.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    before = changes.partition(wanted.topic_id, wanted.partition_index)
    if before is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    # Epochs are checked before the ISR, in Kafka's order: a leader that lags gets an epoch error,
    # on which it catches up, and not an error for an ISR that was valid when it sent it.
    _check_epochs(broker_id, wanted, before)
    isr = [replica.broker_id for replica in wanted.isr]
    _check_isr(isr, wanted.recovery_state, before)
    if not all(_is_eligible(replica, context) for replica in wanted.isr):
        # A fenced replica in the ISR could be elected before it has caught up again (KAFKA-13916).
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
    # An ISR change may end a reassignment, which then elects a leader by the topic's rule.
    election = changes.election(wanted.topic_id)
    after = changes.make(
        before, Target(isr=isr, recovery_state=wanted.recovery_state, election=election)
    )
    if after.leader != broker_id:
        # After the record was made: the sender reads the new leader in the log before it tries
        # again.
        raise ApiError(ErrorCode.NEW_LEADER_ELECTED)
    return after


def _check_epochs(broker_id: int, wanted: NewState, before: PartitionRecord) -> None:
    if wanted.leader_epoch > before.leader_epoch or wanted.partition_epoch > before.partition_epoch:
        # The leader knows a later state than this controller, so another controller must be active
        # by now. NOT_CONTROLLER makes the leader look for it.
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < before.leader_epoch:
        # A new leader epoch has begun since: the sender leads no longer, or has to read that it
        # leads again.
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != before.leader:
        # In the right epoch there is one leader, so the sender has a fault that no retry mends.
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if wanted.partition_epoch < before.partition_epoch:
        # The leader has not seen a change of this controller, which its ISR would undo (KIP-497).
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(isr: Sequence[int], recovery_state: int, before: PartitionRecord) -> None:
    # ``Replicas.validateIsr``, and the leader itself: it has every record that it acknowledges.
    is_isr = len(set(isr)) == len(isr) and set(isr) <= set(before.replicas) and before.leader in isr
    is_state = recovery_state == RECOVERED or (
        # A leader that recovers is alone in the ISR, and a leader that has recovered cannot be
        # recovering again without a new election (KIP-704).
        recovery_state == RECOVERING
        and len(isr) == 1
        and before.leader_recovery_state == RECOVERING
    )
    if not is_isr or not is_state:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _is_eligible(replica: Replica, context: ControllerRequestContext) -> bool:
    """Whether the broker may join the ISR: it is active, and has not restarted since it caught up
    (KIP-841, KIP-903).

    A restarted broker may have lost the records that the leader saw it fetch.
    """
    broker = context.image.brokers.get(replica.broker_id)
    return (
        broker is not None
        and context.nodes.is_active(replica.broker_id)
        # -1 as in ``ineligibleReplicasForIsr``: versions below 3 have no epochs, and a leader may
        # not know one.
        and replica.broker_epoch in (_ANY_EPOCH, broker.broker_epoch)
    )
