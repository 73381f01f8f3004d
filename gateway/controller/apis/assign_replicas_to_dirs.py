"""AssignReplicasToDirs: a broker reports the log directory of each of its replicas (KIP-858,
``ReplicationControlManager.handleAssignReplicasToDirs``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices
from gateway.controller.admin_api import AdminApi, Refusal, SlicedDecision
from gateway.controller.brokers import check_broker_epoch
from gateway.controller.errors import ApiError
from gateway.controller.leader_election import remove_from_isr
from gateway.controller.partition_change import Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.partition_set import PartitionKey
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from kwire.message import Message
from kwire.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kwire.protocol import ApiKey, ErrorCode
from kwire.protocol.metadata_version import is_directory_assignment_supported

if TYPE_CHECKING:
    from kwire.message import Message
    from kwire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
    from kwire.uuid import Uuid


def assign_replicas_to_dirs(
    request: AssignReplicasToDirsRequest, context: ControllerRequestContext
) -> SlicedDecision:
    """Return a record for each replica that moved; a replica in an offline directory also leaves
    the ISR.

    Raises ApiError where the broker is not registered with this epoch, or the level is too old.
    """
    # Before the broker's epoch, as in Kafka: the level decides whether the record can be read at
    # all.
    if not is_directory_assignment_supported(context.level):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    check_broker_epoch(request.broker_id, request.broker_epoch, context.image)
    assignment = _Assignment(request.broker_id, context)
    directories = []
    for directory in request.directories:
        # The broker may report a directory that failed since: its replicas there must not lead.
        is_online = context.nodes.has_directory(request.broker_id, directory.id)
        topics = []
        for topic in directory.topics:
            partitions = []
            for one in topic.partitions:
                key = topic.topic_id, one.partition_index
                error = assignment.assign(key, directory.id, is_online)
                partitions.append(
                    PartitionData(partition_index=one.partition_index, error_code=error)
                )
                yield
            topics.append(TopicData(topic_id=topic.topic_id, partitions=partitions))
        directories.append(DirectoryData(id=directory.id, topics=topics))
    records = yield from assignment.records()
    return ControllerResult(
        records, AssignReplicasToDirsResponse(directories=directories), atomic=False
    )


class _Assignment:
    """The assignments of one request, replica after replica."""

    def __init__(self, broker_id: int, context: ControllerRequestContext) -> None:
        self._broker_id, self._context = broker_id, context
        self._changes = PartitionChanges(context)
        # A dict for its order: equal requests make equal records.
        self._offline: dict[PartitionKey, None] = {}

    def assign(self, key: PartitionKey, directory: Uuid, is_online: bool) -> ErrorCode:
        """Assign the replica to the directory; returns the error of its partition, or NONE."""
        if key[0] not in self._context.image.topics:
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self._changes.partition(*key)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id not in partition.replicas:
            # The error of a broker that is no replica: it was reassigned, and will delete the log.
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        # Also without a change, which makes no record: brokers repeat a report whose response was
        # lost.
        self._changes.make(partition, Target(directories={self._broker_id: directory}))
        # Leaders are elected after all assignments: a later one may name an online directory.
        if is_online:
            self._offline.pop(key, None)
        else:
            self._offline[key] = None
        return ErrorCode.NONE

    def records(self) -> Slices[list[Message]]:
        """The records of all assignments, and of new leaders in place of offline replicas."""
        yield from remove_from_isr(self._changes, self._broker_id, self._offline)
        return self._changes.records


def _refuse(request: AssignReplicasToDirsRequest, refusal: Refusal) -> Message:
    return AssignReplicasToDirsResponse(error_code=refusal.error)


API: Final = AdminApi(
    key=ApiKey.ASSIGN_REPLICAS_TO_DIRS,
    operation="assignReplicasToDirs",
    decide=assign_replicas_to_dirs,
    refuse=_refuse,
    cluster_operation="CLUSTER_ACTION",
)
