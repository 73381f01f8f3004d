"""AssignReplicasToDirs: a broker tells in which of its directories replicas are (KIP-858, ``handleAssignReplicasToDirs``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.brokers import check_broker_epoch
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.leader_election import remove_from_isr
from gateway.controller.partition_change import Target
from gateway.controller.partition_changes import PartitionChanges
from gateway.controller.partition_index import PartitionKey
from gateway.controller.records import DIRECTORY_LEVEL
from kwire.messages.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from kwire.message import Message
    from kwire.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
    from kwire.uuid import Uuid


def assign_replicas_to_dirs(request: AssignReplicasToDirsRequest, case: Case) -> Verdict:
    """A record for each replica that moved; one in a directory that is offline leaves the ISR, too. Raises ApiError."""
    if not case.may_on_cluster("CLUSTER_ACTION"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED)
    if case.level < DIRECTORY_LEVEL:
        raise ApiError(Error.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    check_broker_epoch(request.broker_id, request.broker_epoch, case.image)
    assignment = _Assignment(request.broker_id, case)
    directories = []
    for directory in request.directories:
        is_online = case.nodes.has_directory(request.broker_id, directory.id)
        topics = [
            TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=one.partition_index,
                        error_code=assignment.assign((topic.topic_id, one.partition_index), directory.id, is_online),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in directory.topics
        ]
        directories.append(DirectoryData(id=directory.id, topics=topics))
    return Verdict(assignment.records(), AssignReplicasToDirsResponse(directories=directories), atomic=False)


class _Assignment:
    """What one broker tells, replica after replica."""

    def __init__(self, broker_id: int, case: Case) -> None:
        self._broker_id, self._case = broker_id, case
        self._changes = PartitionChanges(case)
        self._offline: dict[PartitionKey, None] = {}

    def assign(self, key: PartitionKey, directory: Uuid, is_online: bool) -> Error:
        """Write down where the replica is; what is wrong with it, if anything."""
        if key[0] not in self._case.image.topics:
            return Error.UNKNOWN_TOPIC_ID
        partition = self._changes.partition(*key)
        if partition is None:
            return Error.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id not in partition.replicas:
            return Error.NOT_LEADER_OR_FOLLOWER
        self._changes.make(partition, Target(directories={self._broker_id: directory}))
        if is_online:
            self._offline.pop(key, None)
        else:
            self._offline[key] = None
        return Error.NONE

    def records(self) -> list[Message]:
        """All that was told, and who leads now instead of replicas that are offline."""
        remove_from_isr(self._changes, self._broker_id, self._offline)
        return self._changes.records
