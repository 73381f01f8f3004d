"""AlterPartition: the leader of partitions says who is in sync (KIP-497, KIP-841, ``ReplicationControlManager.alterPartition``).

Each partition fares on its own. What is answered is the partition as it is then: the leader goes by it at once, so it must
be committed before it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.isr_change import OLD_ERRORS, NewState, Replica, alter, check_leader
from gateway.controller.partition_changes import PartitionChanges
from kwire.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kwire.messages.old import alter_partition_response as old
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.messages.alter_partition_request import AlterPartitionRequest
    from kwire.messages.alter_partition_request import PartitionData as Asked
    from kwire.messages.old.alter_partition_request import AlterPartitionRequest as OldAlterPartitionRequest
    from kwire.messages.old.alter_partition_request import PartitionData as OldAsked

#: From here on topics have ids (KIP-841); before, names.
_BY_ID: Final = 2
#: From here on each replica comes with its broker's epoch, so that one that restarted meanwhile is not taken for in sync.
_WITH_EPOCHS: Final = 3

_Answer = TypeVar("_Answer")


def alter_partition(request: AlterPartitionRequest | OldAlterPartitionRequest, case: Case) -> Verdict:
    """A record for each partition that changes. Raises ApiError where who asks is no broker that may speak."""
    check_leader(request.broker_id, request.broker_epoch, case)
    changes = PartitionChanges(case)
    asked: Any = request
    if case.version < _BY_ID:
        return Verdict(changes.records, _by_name(asked, changes, case), atomic=False)
    topics = [
        TopicData(
            topic_id=topic.topic_id,
            partitions=_partitions(PartitionData, topic.topic_id, topic.partitions, request.broker_id, changes, case),
        )
        for topic in asked.topics
    ]
    return Verdict(changes.records, AlterPartitionResponse(topics=topics), atomic=False)


def _by_name(request: OldAlterPartitionRequest, changes: PartitionChanges, case: Case) -> old.AlterPartitionResponse:
    """The answer to version 1: a topic that there is not has no id, which no topic has either."""
    ids = case.image.topic_ids
    topics = [
        old.TopicData(
            topic_name=topic.topic_name,
            partitions=_partitions(
                old.PartitionData, ids.get(topic.topic_name), topic.partitions, request.broker_id, changes, case
            ),
        )
        for topic in request.topics
    ]
    return old.AlterPartitionResponse(topics=topics)


def _partitions(
    make: Callable[..., _Answer],
    topic_id: Uuid | None,
    partitions: Iterable[Asked | OldAsked],
    broker_id: int,
    changes: PartitionChanges,
    case: Case,
) -> list[_Answer]:
    """What becomes of each of one topic's, as ``make`` writes it."""
    return [make(**_answer(partition, topic_id, broker_id, changes, case)) for partition in partitions]


def _answer(
    partition: Asked | OldAsked, topic_id: Uuid | None, broker_id: int, changes: PartitionChanges, case: Case
) -> dict[str, Any]:
    index = partition.partition_index
    try:
        if topic_id is None:
            raise ApiError(Error.UNKNOWN_TOPIC_ID)
        after = alter(broker_id, _wanted(topic_id, partition, case), changes, case)
    except ApiError as refusal:
        error = refusal.error if case.version >= _BY_ID else OLD_ERRORS.get(refusal.error, refusal.error)
        return {"partition_index": index, "error_code": error}
    return {
        "partition_index": index,
        "leader_id": after.leader,
        "leader_epoch": after.leader_epoch,
        "isr": list(after.isr),
        "leader_recovery_state": after.leader_recovery_state,
        "partition_epoch": after.partition_epoch,
    }


def _wanted(topic_id: Uuid, asked: Asked | OldAsked, case: Case) -> NewState:
    if case.version < _WITH_EPOCHS:
        isr = [Replica(broker_id) for broker_id in asked.new_isr]
    else:
        isr = [Replica(one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs]
    return NewState(topic_id, asked.partition_index, asked.leader_epoch, asked.partition_epoch, isr, asked.leader_recovery_state)
