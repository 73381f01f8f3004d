"""DescribeLogDirs (key 35): the directory the log is read from, and how large the log is (KIP-113)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import PARTITION, TOPIC_NAME
from kwire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest

API_KEY: Final = 35
VERSIONS: Final = range(1, 6)


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """The log's directory, with the partition if it was asked for (null asks for everything).

    The sizes of the volume (version 4 and later) stay at -1, unknown: the directory is somebody else's.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        # Below version 3 there is no place for the error: an empty answer, as in Kafka.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    log = context.gateway.partition
    return DescribeLogDirsResponse(
        results=[DescribeLogDirsResult(log_dir=log.log_dir, topics=[_topic(context)] if _is_asked(request) else [])]
    )


def _is_asked(request: DescribeLogDirsRequest) -> bool:
    return request.topics is None or any(topic.topic == TOPIC_NAME and PARTITION in topic.partitions for topic in request.topics)


def _topic(context: Context) -> DescribeLogDirsTopic:
    size = context.gateway.partition.size_bytes
    return DescribeLogDirsTopic(
        name=TOPIC_NAME, partitions=[DescribeLogDirsPartition(partition_index=PARTITION, partition_size=size)]
    )
