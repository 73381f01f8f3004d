"""One error for all that a request about leaders and replicas asked, in the shape in which that API answers.

For what concerns the request as a whole, as ``refusals``, which knows the other APIs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.controller.topic_names import METADATA_TOPIC
from kwire.message import Message
from kwire.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kwire.messages.alter_partition_response import AlterPartitionResponse
from kwire.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kwire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kwire.messages.kip.kip497.alter_isr_response import AlterIsrResponse
from kwire.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kwire.messages.old.alter_partition_response import AlterPartitionResponse as OldAlterPartitionResponse


def _alter_isr(request: Any, version: int, error: int, message: str | None) -> Message:
    return AlterIsrResponse(error_code=error)


def _alter_partition(request: Any, version: int, error: int, message: str | None) -> Message:
    by_name = version not in AlterPartitionResponse.VERSIONS
    return OldAlterPartitionResponse(error_code=error) if by_name else AlterPartitionResponse(error_code=error)


def _alter_partition_reassignments(request: Any, version: int, error: int, message: str | None) -> Message:
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=message,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=error, error_message=message
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _assign_replicas_to_dirs(request: Any, version: int, error: int, message: str | None) -> Message:
    return AssignReplicasToDirsResponse(error_code=error)


def _elect_leaders(request: Any, version: int, error: int, message: str | None) -> Message:
    # Null asks for every partition there is. Version 0 has no error but those of partitions, so it gets one, which exists.
    everything = [(METADATA_TOPIC, [0])]
    asked = everything if request.topic_partitions is None else [(one.topic, one.partitions) for one in request.topic_partitions]
    results = [
        ReplicaElectionResult(
            topic=name,
            partition_result=[PartitionResult(partition_id=index, error_code=error, error_message=message) for index in indexes],
        )
        for name, indexes in asked
    ]
    return ElectLeadersResponse(error_code=error if version else 0, replica_election_results=results)


def _list_partition_reassignments(request: Any, version: int, error: int, message: str | None) -> Message:
    return ListPartitionReassignmentsResponse(error_code=error, error_message=message)


PARTITION_SHAPES: Final[Mapping[str, Callable[[Any, int, int, str | None], Message]]] = {
    "AlterIsrRequest": _alter_isr,
    "AlterPartitionReassignmentsRequest": _alter_partition_reassignments,
    "AlterPartitionRequest": _alter_partition,
    "AssignReplicasToDirsRequest": _assign_replicas_to_dirs,
    "ElectLeadersRequest": _elect_leaders,
    "ListPartitionReassignmentsRequest": _list_partition_reassignments,
}
