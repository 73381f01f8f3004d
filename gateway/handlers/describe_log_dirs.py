"""DescribeLogDirs (key 35): the directory the logs of this node are in, and how large each is (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.errors import ErrorCode
from gateway.handlers.topic import PARTITION, TOPIC_NAME
from gateway.ports import AUDIT_TOPIC
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

#: Topic, partition, bytes.
_Size = tuple[str, int, int]


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """The directory, with those of its partitions that were asked for (null asks for everything).

    The sizes of the volume (version 4 and later) stay at -1, unknown: the directory is somebody else's.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        # Below version 3 there is no place for the error: an empty answer, as in Kafka.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
    topics = [
        DescribeLogDirsTopic(name=name, partitions=[DescribeLogDirsPartition(partition_index=index, partition_size=size)])
        for name, index, size in _sizes(context)
        if asked is None or (name, index) in asked
    ]
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(log_dir=context.gateway.partition.log_dir, topics=topics)])


def _sizes(context: Context) -> Iterator[_Size]:
    """What lies in the directory: the metadata log, and of the audit topic what this node writes."""
    gateway = context.gateway
    yield TOPIC_NAME, PARTITION, gateway.partition.size_bytes
    audit = gateway.audit
    if audit is not None and gateway.node_id in audit.nodes:
        yield AUDIT_TOPIC, list(audit.nodes).index(gateway.node_id), audit.partition.size_bytes
