"""Decides on AlterIsr: the form that AlterPartition has in the text of KIP-497.

It names topics, and gives one leader and ISR for each partition. The rules are those of
AlterPartition, in ``isr_change``. The response has error codes alone: a leader reads the new ISR in
the log. ``CurrentZkVersion`` is the partition epoch, as both count the changes of one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.admin_api import SlicedDecision
from gateway.controller.brokers import check_broker_epoch
from gateway.controller.errors import ApiError
from gateway.controller.isr_change import OLD_ERRORS, NewState, Replica, alter
from gateway.controller.partition_change import RECOVERED
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.messages.kip.kip497.alter_isr_response import AlterIsrResponse, PartitionData, TopicData
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from kwire.messages.kip.kip497.alter_isr_request import AlterIsrRequest, LeaderAndIsr


def alter_isr(request: AlterIsrRequest, context: ControllerRequestContext) -> SlicedDecision:
    """Return a record for each partition that changes. Raises ApiError STALE_BROKER_EPOCH."""
    # The whole request fails: a broker that was replaced has no say about any partition.
    check_broker_epoch(request.broker_id, request.broker_epoch, context.image)
    changes = PartitionChanges(context)
    answer = AlterIsrResponse()
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index, wanted = partition.partition_id, partition.leader_and_isr
            error = _alter(topic.topic, index, wanted, request.broker_id, changes, context)
            partitions.append(PartitionData(partition_id=index, error_code=error))
            yield
        answer.topics.append(TopicData(topic=topic.topic, partitions=partitions))
    # Each partition has a result of its own, and each record leaves a valid state.
    return ControllerResult(changes.records, answer, atomic=False)


def _alter(
    name: str,
    index: int,
    asked: LeaderAndIsr,
    broker_id: int,
    changes: PartitionChanges,
    context: ControllerRequestContext,
) -> ErrorCode:
    topic_id = context.image.topic_ids.get(name)
    if topic_id is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader != broker_id:
        # A leader changes the ISR of its own partitions only: the field cannot elect another one.
        return ErrorCode.INVALID_REQUEST
    before = changes.partition(topic_id, index)
    # The form has no field for the leader's recovery state: a leader that is alone in the ISR keeps
    # its state, and one with followers in sync has recovered.
    recovery = (
        before.leader_recovery_state if before is not None and len(asked.isr) == 1 else RECOVERED
    )
    # Without broker epochs, which came with KIP-903.
    isr = [Replica(node_id) for node_id in asked.isr]
    try:
        alter(
            broker_id,
            NewState(topic_id, index, asked.leader_epoch, asked.current_zk_version, isr, recovery),
            changes,
            context,
        )
    except ApiError as refusal:
        # A broker of that time knows none of the codes that came with topic ids.
        return OLD_ERRORS.get(refusal.error, refusal.error)
    return ErrorCode.NONE
