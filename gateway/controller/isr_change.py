"""What a leader may change of the ISR of its partition
(``ReplicationControlManager.validateAlterPartitionData``).

The rules that AlterPartition and AlterIsr share, in the order of Kafka's checks. It knows no
request.
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

#: What a leader is told that asks in a form without topic ids: it does not know the errors that
#: came with them (KIP-841).
OLD_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INELIGIBLE_REPLICA: ErrorCode.OPERATION_NOT_ATTEMPTED,
    ErrorCode.NEW_LEADER_ELECTED: ErrorCode.FENCED_LEADER_EPOCH,
}
#: No epoch is known: it is not compared.
_ANY_EPOCH = -1


class Replica(NamedTuple):
    """Of a new ISR: a broker and the epoch in which it was in sync."""

    broker_id: int
    broker_epoch: int = _ANY_EPOCH


class NewState(NamedTuple):
    """What a leader wants of one partition, and which it thinks the partition is."""

    topic_id: Uuid
    partition_index: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[Replica]
    recovery_state: int = RECOVERED


def alter(
    broker_id: int, wanted: NewState, changes: PartitionChanges, context: ControllerRequestContext
) -> PartitionRecord:
    """The partition once it is as ``broker_id`` wants it, with the record in ``changes``. Raises
    ApiError: nothing is changed.

    NEW_LEADER_ELECTED alone tells of a change that was made: it ended a reassignment, and who asked
    leads no more.
    """
    if wanted.topic_id not in context.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    before = changes.partition(wanted.topic_id, wanted.partition_index)
    if before is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _check_epochs(broker_id, wanted, before)
    isr = [replica.broker_id for replica in wanted.isr]
    _check_isr(isr, wanted.recovery_state, before)
    if not all(_is_eligible(replica, context) for replica in wanted.isr):
        raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
    election = changes.election(wanted.topic_id)
    after = changes.make(
        before, Target(isr=isr, recovery_state=wanted.recovery_state, election=election)
    )
    if after.leader != broker_id:
        raise ApiError(ErrorCode.NEW_LEADER_ELECTED)
    return after


def _check_epochs(broker_id: int, wanted: NewState, before: PartitionRecord) -> None:
    if wanted.leader_epoch > before.leader_epoch or wanted.partition_epoch > before.partition_epoch:
        # It knows of what was decided later: not here, so somebody else must be the controller by
        # now.
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < before.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != before.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if wanted.partition_epoch < before.partition_epoch:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)


def _check_isr(isr: Sequence[int], recovery_state: int, before: PartitionRecord) -> None:
    is_isr = len(set(isr)) == len(isr) and set(isr) <= set(before.replicas) and before.leader in isr
    is_state = recovery_state == RECOVERED or (
        # A leader that recovers is alone, and one that has recovered has lost nothing since.
        recovery_state == RECOVERING
        and len(isr) == 1
        and before.leader_recovery_state == RECOVERING
    )
    if not is_isr or not is_state:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _is_eligible(replica: Replica, context: ControllerRequestContext) -> bool:
    """Does it serve, in the same life as when it was in sync (KIP-903)?"""
    broker = context.image.brokers.get(replica.broker_id)
    return (
        broker is not None
        and context.nodes.is_active(replica.broker_id)
        and replica.broker_epoch in (_ANY_EPOCH, broker.broker_epoch)
    )
