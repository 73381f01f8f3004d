"""DescribeLogDirs (key 35): returns this node's log directory, and the size of each log in it
(KIP-113).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.topic import PARTITION
from gateway.ports.services import AUDIT_TOPIC
from kwire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest

API_KEY: Final = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS: Final = range(1, 6)

#: Topic, partition, bytes.
_Size = tuple[str, int, int]


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Return the directory with the requested partitions; null requests all.

    The sizes of the volume (from version 4 on) are -1, unknown: with source=log another server owns
    the volume.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        # Below version 3 the response has no error code: it is empty, as in Kafka.
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = None
    if request.topics is not None:
        asked = {
            (topic.topic, partition) for topic in request.topics for partition in topic.partitions
        }
    topics = [
        DescribeLogDirsTopic(
            name=name,
            partitions=[DescribeLogDirsPartition(partition_index=index, partition_size=size)],
        )
        for name, index, size in _sizes(context)
        if asked is None or (name, index) in asked
    ]
    return DescribeLogDirsResponse(
        results=[DescribeLogDirsResult(log_dir=context.gateway.partition.log_dir, topics=topics)]
    )


def _sizes(context: Context) -> Iterator[_Size]:
    """Yield the logs in the directory: the metadata log, and this node's partition of the audit
    topic.
    """
    gateway = context.gateway
    yield CLUSTER_METADATA_TOPIC, PARTITION, gateway.partition.size_bytes
    audit = gateway.audit
    if audit is not None and gateway.node_id in audit.nodes:
        yield AUDIT_TOPIC, list(audit.nodes).index(gateway.node_id), audit.partition.size_bytes
