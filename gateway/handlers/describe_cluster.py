"""DescribeCluster (key 60): who belongs to the cluster (KIP-700, KIP-919).

Where a real quorum is observed these are its brokers and controllers, as the committed records say; of a quorum of our own,
its nodes and the brokers under it. Over files it is this node alone. Clients take nothing from it to find a topic: that is
Metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gateway.handlers.access import Operation, cluster_operations, may_on_cluster
from gateway.handlers.errors import ErrorCode
from gateway.handlers.nodes import reachable_nodes
from kwire.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from gateway.ports import Quorum
    from kwire.messages.describe_cluster_request import DescribeClusterRequest

API_KEY: Final = 60
VERSIONS: Final = range(3)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
#: What is said where the other type was to be asked for.
_MISMATCHED: Final = {
    _BROKERS: "This is a listener for controllers: ask at a listener for clients for the brokers.",
    _CONTROLLERS: "This is a broker listener: ask a controller of the quorum for the controllers.",
}
#: From here on fenced brokers can be asked for, and are marked (KIP-1073).
_FENCED: Final = 2


def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """The nodes of the type asked for; UNSUPPORTED_ENDPOINT_TYPE for one there is not.

    Controllers without a quorum behind this node: MISMATCHED_ENDPOINT_TYPE, as from a broker's listener. On a listener for
    controllers it takes ALTER on the cluster, as in Kafka.
    """
    quorum = context.gateway.quorum
    if context.gateway.is_for_controllers(context.peer.listener) and not may_on_cluster(context, Operation.ALTER):
        return DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, endpoint_type=request.endpoint_type)
    if request.endpoint_type not in (_BROKERS, _CONTROLLERS) or (request.endpoint_type == _CONTROLLERS and quorum is None):
        return _refuse(request.endpoint_type)
    if request.endpoint_type == _BROKERS and context.gateway.is_for_controllers(context.peer.listener):
        return _refuse(_BROKERS)
    response = DescribeClusterResponse(cluster_id=context.gateway.partition.cluster_id)
    if request.endpoint_type == _CONTROLLERS and quorum is not None:
        _tell_controllers(response, quorum)
    elif context.gateway.controller is None and quorum is not None and quorum.image.brokers:
        response.brokers = _brokers(quorum, request, context)
        # A broker names any live broker here: who leads the quorum is nothing that its clients could connect to.
        response.controller_id = response.brokers[0].broker_id if response.brokers else -1
    else:
        _tell_reachable(response, request, context)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def _tell_controllers(response: DescribeClusterResponse, quorum: Quorum) -> None:
    response.endpoint_type = _CONTROLLERS
    response.controller_id = quorum.leader_id
    response.brokers = [
        DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, controller in sorted(quorum.image.controllers.items())
        for endpoint in controller.end_points[:1]
    ]


def _brokers(quorum: Quorum, request: DescribeClusterRequest, context: Context) -> list[DescribeClusterBroker]:
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
    """The address at the listener of the client's name, else at the first; empty where there is none."""
    return [endpoint for endpoint in endpoints if endpoint.name == listener][:1] or endpoints[:1]


def _tell_reachable(response: DescribeClusterResponse, request: DescribeClusterRequest, context: Context) -> None:
    """This node, the others of its own quorum, and the brokers under it: the nodes of Metadata, and fenced ones if they are
    asked for."""
    response.controller_id = context.gateway.node_id  # every node takes what is for the controller
    quorum = context.gateway.quorum
    told = {one.broker_id: one for one in _brokers(quorum, request, context)} if quorum is not None else {}
    for node_id, node in reachable_nodes(context).items():
        told[node_id] = DescribeClusterBroker(broker_id=node_id, host=node.host, port=node.port, rack=node.rack)
    response.brokers = [told[node_id] for node_id in sorted(told)]


def _refuse(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type in _MISMATCHED:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=_MISMATCHED[endpoint_type], endpoint_type=endpoint_type
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"There is no endpoint type {endpoint_type}: 1 is brokers, 2 controllers.",
        endpoint_type=endpoint_type,
    )
