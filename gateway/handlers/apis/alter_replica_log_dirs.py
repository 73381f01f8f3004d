"""AlterReplicaLogDirs (key 34): moves logs to other directories of this node (KIP-113).

The response classes are imported at the first request: most servers never get one. Source:
``KafkaApis.handleAlterReplicaLogDirsRequest``, ``ReplicaManager.alterReplicaLogDirs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import has_partition, topic_named
from gateway.ports.work import in_slices
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Answer, Work
    from kwire.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest

API_KEY: Final = ApiKey.ALTER_REPLICA_LOG_DIRS
VERSIONS: Final = range(1, 3)


def handle(request: AlterReplicaLogDirsRequest, context: Context) -> Answer:
    """Return for each partition whether its log is in the directory, or will be."""
    size = sum(1 + len(topic.partitions) for one in request.dirs for topic in one.topics)
    return in_slices(_altered(request, context), size)


def _altered(request: AlterReplicaLogDirsRequest, context: Context) -> Work:
    from kwire.messages.alter_replica_log_dirs_response import (
        AlterReplicaLogDirPartitionResult,
        AlterReplicaLogDirsResponse,
        AlterReplicaLogDirTopicResult,
    )

    refused = ErrorCode.NONE
    if not may_on_cluster(context, Operation.ALTER):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = AlterReplicaLogDirsResponse()
    for wanted in request.dirs:
        fault = refused or _fault_of(wanted.path, context)
        for topic in wanted.topics:
            answer = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            response.results.append(answer)
            for index in topic.partitions:
                error = fault or _altered_one(topic.name, index, wanted.path, context)
                answer.partitions.append(
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                )
                yield None
            yield None
    return response


def _fault_of(path: str, context: Context) -> ErrorCode:
    """Return why no log can be in the directory; NONE if one can."""
    replicas, metadata = context.gateway.replicas, context.gateway.partition.log_dir
    known = {metadata: True} if replicas is None else replicas.directories()
    if path not in known:
        return ErrorCode.LOG_DIR_NOT_FOUND
    return ErrorCode.NONE if known[path] else ErrorCode.KAFKA_STORAGE_ERROR


def _altered_one(name: str, index: int, path: str, context: Context) -> ErrorCode:
    """Return why a partition cannot be in the directory; NONE if it is, or will be."""
    topic = topic_named(name, context)
    if topic is None or not has_partition(topic, index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    replicas = context.gateway.replicas
    if topic.partitions is None or replicas is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return replicas.move(topic.partitions[index], path)
