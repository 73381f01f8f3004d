"""Changes of partitions and records, all refused, item by item in the shape that each API answers with.

DeleteRecords 21, ElectLeaders 43, AlterPartitionReassignments 45. Answer classes are imported when first asked for: most
servers never are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.refusals import REASON, REFUSED
from gateway.handlers.table import Handler
from gateway.handlers.topic import PARTITION, TOPIC_NAME

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.message import Message


def _delete_records(request: Any, context: Context) -> Message:
    from kwire.messages.delete_records_response import (
        DeleteRecordsPartitionResult,
        DeleteRecordsResponse,
        DeleteRecordsTopicResult,
    )

    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(partition_index=partition.partition_index, low_watermark=-1, error_code=REFUSED)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _elect_leaders(request: Any, context: Context) -> Message:
    from kwire.messages.elect_leaders_response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

    # Null asks for every partition there is. The error stands at the partitions: only there is room for a reason.
    everything = [(TOPIC_NAME, [PARTITION])]
    asked = everything if request.topic_partitions is None else [(t.topic, t.partitions) for t in request.topic_partitions]
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=REFUSED, error_message=REASON) for index in partitions
                ],
            )
            for topic, partitions in asked
        ]
    )


def _alter_partition_reassignments(request: Any, context: Context) -> Message:
    from kwire.messages.alter_partition_reassignments_response import (
        AlterPartitionReassignmentsResponse,
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=partition.partition_index, error_code=REFUSED, error_message=REASON
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLERS: Final = (
    Handler(21, "delete_records", range(3), _delete_records),
    Handler(43, "elect_leaders", range(3), _elect_leaders),
    Handler(45, "alter_partition_reassignments", range(2), _alter_partition_reassignments),
)
