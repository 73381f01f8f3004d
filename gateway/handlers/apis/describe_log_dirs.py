"""DescribeLogDirs (key 35): returns this node's log directories, and the size of each log in them
(KIP-113).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.base.slices import run
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.catalog import audit_logs
from gateway.handlers.topic import PARTITION
from gateway.ports.replicas import LogSize
from gateway.ports.services import AUDIT_TOPIC
from kwire.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kwire.protocol import CLUSTER_METADATA_TOPIC, ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.base.slices import Slices
    from gateway.handlers.context import Context
    from gateway.ports.pending_response import Work
    from kwire.messages.describe_log_dirs_request import DescribeLogDirsRequest

API_KEY: Final = ApiKey.DESCRIBE_LOG_DIRS
VERSIONS: Final = range(1, 6)


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse | Work:
    """Return the directories with the requested partitions; null requests all. Those of a broker
    may be many, so that they are looked at in slices.

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
    if context.gateway.replicas is None:
        return run(_described(asked, context))
    return _described(asked, context)


def _described(
    asked: set[tuple[str, int]] | None, context: Context
) -> Slices[DescribeLogDirsResponse]:
    replicas, metadata = context.gateway.replicas, context.gateway.partition.log_dir
    known = {metadata: True} if replicas is None else replicas.directories()
    found: dict[str, dict[str, DescribeLogDirsTopic]] = {path: {} for path in known}
    for name, index, size, directory, lag, is_future in _sizes(context):
        # The metadata log of a broker may be beside its log directories, as in Kafka.
        if directory in found and (asked is None or (name, index) in asked):
            topic = found[directory].setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=size,
                    offset_lag=lag,
                    is_future_key=is_future,
                )
            )
        yield
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE if is_online else ErrorCode.KAFKA_STORAGE_ERROR,
                log_dir=path,
                topics=list(found[path].values()),
            )
            for path, is_online in known.items()
        ]
    )


def _sizes(context: Context) -> Iterator[LogSize]:
    """Yield the logs: the metadata log, this node's audit log while it is served, and those of a
    broker.
    """
    gateway = context.gateway
    directory = gateway.partition.log_dir
    yield LogSize(CLUSTER_METADATA_TOPIC, PARTITION, gateway.partition.size_bytes, directory)
    audit = gateway.audit
    if audit is not None and gateway.node_id in audit.nodes and audit_logs(context) is not None:
        index = list(audit.nodes).index(gateway.node_id)
        yield LogSize(AUDIT_TOPIC, index, audit.partition.size_bytes, directory)
    if gateway.replicas is not None:
        yield from gateway.replicas.sizes()
