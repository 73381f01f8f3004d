"""AlterIsr, AlterPartition in the words of KIP-497's text: topics by name, one leader and ISR a partition, a ZooKeeper version.

The same rules; what was decided is not in the answer but in the log. Its ``CurrentZkVersion`` is what Kafka calls the
partition's epoch, as both count the changes of one partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.isr_change import OLD_ERRORS, NewState, Replica, alter, check_leader
from gateway.controller.partition_change import RECOVERED
from gateway.controller.partition_changes import PartitionChanges
from kwire.messages.kip.kip497.alter_isr_response import AlterIsrResponse, PartitionData, TopicData

if TYPE_CHECKING:
    from kwire.messages.kip.kip497.alter_isr_request import AlterIsrRequest, LeaderAndIsr


def alter_isr(request: AlterIsrRequest, case: Case) -> Verdict:
    """A record for each partition that changes. Raises ApiError where who asks is no broker that may speak."""
    check_leader(request.broker_id, request.broker_epoch, case)
    changes = PartitionChanges(case)
    topics = [
        TopicData(
            topic=topic.topic,
            partitions=[
                PartitionData(
                    partition_id=partition.partition_id,
                    error_code=_alter(
                        topic.topic, partition.partition_id, partition.leader_and_isr, request.broker_id, changes, case
                    ),
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return Verdict(changes.records, AlterIsrResponse(topics=topics), atomic=False)


def _alter(name: str, index: int, asked: LeaderAndIsr, broker_id: int, changes: PartitionChanges, case: Case) -> Error:
    topic_id = case.image.topic_ids.get(name)
    if topic_id is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader != broker_id:  # a leader speaks for itself alone
        return Error.INVALID_REQUEST
    before = changes.partition(topic_id, index)
    # The text has no word for a leader that recovers, so it stays as it is while it is alone, and has recovered else.
    recovery = before.leader_recovery_state if before is not None and len(asked.isr) == 1 else RECOVERED
    isr = [Replica(node_id) for node_id in asked.isr]
    try:
        alter(broker_id, NewState(topic_id, index, asked.leader_epoch, asked.current_zk_version, isr, recovery), changes, case)
    except ApiError as refusal:
        return OLD_ERRORS.get(refusal.error, refusal.error)
    return Error.NONE
