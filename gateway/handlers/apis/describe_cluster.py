"""DescribeCluster (key 60): returns the nodes of the cluster (KIP-700, KIP-919).

Over an observed quorum these are the brokers and controllers in the committed image; in this node's
own quorum, its nodes and the brokers under it; over files, this node alone. Clients find partition
leaders with Metadata, not here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, cluster_operations, may_on_cluster
from gateway.handlers.nodes import reachable_nodes
from kwire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports.services import Quorum
    from kwire.messages.describe_cluster_request import DescribeClusterRequest

API_KEY: Final = ApiKey.DESCRIBE_CLUSTER
VERSIONS: Final = range(3)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
#: The error texts for the wrong type of endpoint.
_MISMATCHED: Final = {
    _BROKERS: "This is a listener for controllers: ask at a listener for clients for the brokers.",
    _CONTROLLERS: "This is a broker listener: ask a controller of the quorum for the controllers.",
}
#: The first version in which clients can ask for fenced brokers, which are marked (KIP-1073).
_FENCED: Final = 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Return the nodes of the requested type; UNSUPPORTED_ENDPOINT_TYPE for an unknown one.

    Without a quorum a request for controllers gets MISMATCHED_ENDPOINT_TYPE, as on a broker. On a
    controller listener the client needs ALTER on the cluster, as in Kafka.
    """
    quorum = context.gateway.quorum
    if context.gateway.is_for_controllers(context.peer.listener) and not may_on_cluster(
        context, Operation.ALTER
    ):
        return DescribeClusterResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, endpoint_type=request.endpoint_type
        )
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS) or (
        request.endpoint_type == _CONTROLLERS and quorum is None
    ):
        return _refuse(request.endpoint_type)
    if request.endpoint_type == _BROKERS and context.gateway.is_for_controllers(
        context.peer.listener
    ):
        return _refuse(_BROKERS)
    response = DescribeClusterResponse(cluster_id=context.gateway.partition.cluster_id)
    if request.endpoint_type == _CONTROLLERS and quorum is not None:
        _add_controllers(response, quorum)
    elif context.gateway.controller is None and quorum is not None and quorum.image.brokers:
        response.brokers = _brokers(quorum, request, context)
        # As on a broker, which names any live broker: clients cannot connect to the leader of the
        # quorum, and brokers forward their admin requests (KIP-590).
        response.controller_id = response.brokers[0].broker_id if response.brokers else -1
    else:
        _add_reachable(response, request, context)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _add_controllers(response: DescribeClusterResponse, quorum: Quorum) -> None:
    response.endpoint_type = _CONTROLLERS
    response.controller_id = quorum.leader_id
    response.brokers = [
        DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, controller in sorted(quorum.image.controllers.items())
        for endpoint in controller.end_points[:1]
    ]


def _brokers(
    quorum: Quorum, request: DescribeClusterRequest, context: Context
) -> list[DescribeClusterBroker]:
    fenced_too = context.version >= _FENCED and request.include_fenced_brokers
    return [
        DescribeClusterBroker(
            broker_id=node_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=fenced_too and broker.fenced,
        )
        for node_id, broker in sorted(quorum.image.brokers.items())
        if fenced_too or not broker.fenced
        for endpoint in _endpoint(broker.end_points, context.peer.listener)
    ]


def _endpoint(endpoints: Sequence[Any], listener: str) -> Sequence[Any]:
    """Return the address at the client's listener, else at the first one; empty without any."""
    return [endpoint for endpoint in endpoints if endpoint.name == listener][:1] or endpoints[:1]


def _add_reachable(
    response: DescribeClusterResponse, request: DescribeClusterRequest, context: Context
) -> None:
    """Add the nodes of Metadata (this node, others of its quorum, brokers under it), and the fenced
    brokers if the client asked for them.
    """
    response.controller_id = context.gateway.node_id  # every node forwards admin requests
    quorum = context.gateway.quorum
    found = (
        {one.broker_id: one for one in _brokers(quorum, request, context)}
        if quorum is not None
        else {}
    )
    for node_id, node in reachable_nodes(context).items():
        found[node_id] = DescribeClusterBroker(
            broker_id=node_id, host=node.host, port=node.port, rack=node.rack
        )
    response.brokers = [found[node_id] for node_id in sorted(found)]


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type in _MISMATCHED:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message=_MISMATCHED[endpoint_type],
            endpoint_type=endpoint_type,
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"There is no endpoint type {endpoint_type}: 1 is brokers, 2 controllers.",
        endpoint_type=endpoint_type,
    )
