"""AlterPartition: the leader of partitions changes their ISR (KIP-497, KIP-841).

Each partition has its own result: the partition as it is after the change. The leader acts on it at
once, so the response waits until the change is committed. A leader of thousands of partitions sends
all of them in one request, so the decision is made in slices. Versions 2 and 3 are those of Kafka
4. Two older forms are served and not advertised: AlterIsr as KIP-497's text has it (0), and
AlterPartition with topics by name (1). The rules are in ``isr_change``. Follows
``ReplicationControlManager.alterPartition``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.alter_isr import alter_isr
from gateway.controller.brokers import check_broker_epoch
from gateway.controller.errors import ApiError
from gateway.controller.isr_change import OLD_ERRORS, NewState, Replica, alter
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.alter_partition_response import AlterPartitionResponse, PartitionData, TopicData
from kwire.messages.kip.kip497.alter_isr_request import AlterIsrRequest
from kwire.messages.kip.kip497.alter_isr_response import AlterIsrResponse
from kwire.messages.old import alter_partition_response as old
from kwire.messages.old.alter_partition_request import (
    AlterPartitionRequest as OldAlterPartitionRequest,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import Uuid

if TYPE_CHECKING:
    from kwire.messages.alter_partition_request import AlterPartitionRequest
    from kwire.messages.alter_partition_request import PartitionData as Asked
    from kwire.messages.old.alter_partition_request import PartitionData as OldAsked

#: From this version on topics have ids (KIP-841); before, names.
_BY_ID: Final = 2
#: From this version on each replica comes with its broker's epoch, so that a broker that restarted
#: in the meantime is not counted in sync (KIP-903).
_WITH_EPOCHS: Final = 3

_Answer = TypeVar("_Answer")


def alter_partition(
    request: AlterPartitionRequest | OldAlterPartitionRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return a record for each partition that changes. Raises ApiError where the broker is not
    registered with this epoch.
    """
    # A request without a partition is answered without a look at its sender
    # (``QuorumController.alterPartition``).
    if request.topics:
        # The whole request fails: it comes from an incarnation that was replaced.
        check_broker_epoch(request.broker_id, request.broker_epoch, context.image)
    changes = PartitionChanges(context)
    # Not atomic: each partition has a result of its own, and each record leaves a valid state.
    answer = yield from (
        _by_name(request, changes, context)
        if isinstance(request, OldAlterPartitionRequest)
        else _by_id(request, changes, context)
    )
    return ControllerResult(changes.records, answer, atomic=False)


def _by_id(
    request: AlterPartitionRequest, changes: PartitionChanges, context: ControllerRequestContext
) -> Slices[Message]:
    answer = AlterPartitionResponse()
    for topic in request.topics:
        partitions = yield from _partitions(
            PartitionData, topic.topic_id, topic.partitions, request.broker_id, changes, context
        )
        answer.topics.append(TopicData(topic_id=topic.topic_id, partitions=partitions))
    return answer


def _by_name(
    request: OldAlterPartitionRequest, changes: PartitionChanges, context: ControllerRequestContext
) -> Slices[Message]:
    """Return the response to version 1, whose request and response have topics by name."""
    answer = old.AlterPartitionResponse()
    for topic in request.topics:
        topic_id = context.image.topic_ids.get(topic.topic_name)
        partitions = yield from _partitions(
            old.PartitionData, topic_id, topic.partitions, request.broker_id, changes, context
        )
        answer.topics.append(old.TopicData(topic_name=topic.topic_name, partitions=partitions))
    return answer


def _partitions(
    make: Callable[..., _Answer],
    topic_id: Uuid | None,
    partitions: Iterable[Asked | OldAsked],
    broker_id: int,
    changes: PartitionChanges,
    context: ControllerRequestContext,
) -> Slices[list[_Answer]]:
    """Return the result for each partition of one topic, as a struct that ``make`` builds."""
    answers = []
    for partition in partitions:
        answers.append(make(**_answer(partition, topic_id, broker_id, changes, context)))
        yield
    return answers


def _answer(
    partition: Asked | OldAsked,
    topic_id: Uuid | None,
    broker_id: int,
    changes: PartitionChanges,
    context: ControllerRequestContext,
) -> dict[str, Any]:
    index = partition.partition_index
    try:
        # ``alter`` knows ids alone; version 1 gets the error for names (``OLD_ERRORS``).
        if topic_id is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        after = alter(broker_id, _wanted(topic_id, partition, context), changes, context)
    except ApiError as refusal:
        error = (
            refusal.error
            if context.version >= _BY_ID
            else OLD_ERRORS.get(refusal.error, refusal.error)
        )
        return {"partition_index": index, "error_code": error}
    return {
        "partition_index": index,
        # The new state and not only an error, as KIP-497's text had it: the leader need not wait
        # until it reads the record in the log.
        "leader_id": after.leader,
        "leader_epoch": after.leader_epoch,
        "isr": list(after.isr),
        "leader_recovery_state": after.leader_recovery_state,
        "partition_epoch": after.partition_epoch,
    }


def _wanted(topic_id: Uuid, asked: Asked | OldAsked, context: ControllerRequestContext) -> NewState:
    # Broker epochs came with KIP-903. Without them a leader can add a replica that has lost records
    # in a restart since.
    if context.version < _WITH_EPOCHS:
        isr = [Replica(broker_id) for broker_id in asked.new_isr]
    else:
        isr = [Replica(one.broker_id, one.broker_epoch) for one in asked.new_isr_with_epochs]
    return NewState(
        topic_id,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        isr,
        asked.leader_recovery_state,
    )


def _refuse(request: Any, refusal: Refusal) -> Message:
    if isinstance(request, AlterIsrRequest):
        return AlterIsrResponse(error_code=refusal.error)
    if isinstance(request, OldAlterPartitionRequest):
        return old.AlterPartitionResponse(error_code=refusal.error)
    return AlterPartitionResponse(error_code=refusal.error)


def _decide(request: Any, context: ControllerRequestContext) -> SlicedDecision:
    if isinstance(request, AlterIsrRequest):
        return alter_isr(request, context)
    return alter_partition(request, context)


API: Final = AdminApi(
    key=ApiKey.ALTER_PARTITION,
    operation="alterPartition",
    decide=_decide,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
    # A broker of Kafka 2.7 to 3.1 means a third form by version 0, so these are not advertised.
    old_requests={0: AlterIsrRequest, 1: OldAlterPartitionRequest},
)
