"""DescribeCluster (key 60): who belongs to the cluster that clients see here, which is this node alone (KIP-700)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import cluster_operations
from gateway.handlers.errors import ErrorCode
from kwire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.messages.describe_cluster_request import DescribeClusterRequest

API_KEY: Final = 60
VERSIONS: Final = range(3)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """The node; MISMATCHED_ENDPOINT_TYPE for controllers (KIP-919), UNSUPPORTED_ENDPOINT_TYPE for what is neither."""
    if request.endpoint_type != _BROKERS:
        return _refuse(request.endpoint_type)
    gateway = context.gateway
    endpoint = gateway.endpoint(context.peer.listener)
    response = DescribeClusterResponse(
        cluster_id=gateway.partition.cluster_id,
        controller_id=gateway.node_id,
        brokers=[DescribeClusterBroker(broker_id=gateway.node_id, host=endpoint.host, port=endpoint.port)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="This is a broker listener: ask a controller of the quorum for the controllers.",
            endpoint_type=_CONTROLLERS,
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"There is no endpoint type {endpoint_type}: 1 is brokers, 2 controllers.",
        endpoint_type=endpoint_type,
    )
