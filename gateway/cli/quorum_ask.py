"""Finds the leader of a metadata quorum and requests its description. It does not print.

A broker forwards DescribeQuorum to the active controller. A controller that is not active refuses
it; its response to DescribeCluster (KIP-919) names the controllers and the active one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click
import trio

from gateway.base.address import Address
from gateway.cli.listener_probe import explained
from gateway.ports.services import PARTITION
from gateway.server.node_client.connection import Upstream
from gateway.server.node_client.errors import ConnectionClosed, TimedOut, UpstreamError
from kwire.messages.describe_cluster_request import DescribeClusterRequest
from kwire.messages.describe_quorum_request import DescribeQuorumRequest
from kwire.messages.describe_quorum_request import PartitionData as Partition
from kwire.messages.describe_quorum_request import TopicData as Topic
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode

if TYPE_CHECKING:
    from gateway.security.client_properties import ClientSecurity
    from kwire.messages.describe_cluster_response import DescribeClusterResponse
    from kwire.messages.describe_quorum_response import DescribeQuorumResponse, Node, PartitionData

_CLIENT_ID: Final = "kwire-quorum"
_BROKERS, _CONTROLLERS = 1, 2
#: From this version on DescribeCluster can return controllers.
_ENDPOINT_TYPES: Final = 1
_PAUSE_S: Final = 0.25
#: Transient errors: during an election, or while a node starts or stops.
_TRANSIENT: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
    | {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
_OTHER_LISTENER: Final = (
    "; of --bootstrap-server and --bootstrap-controller the other one is for such a listener"
)
_ADVICE: Final[dict[int, str]] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "; allow the principal to Describe the cluster",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: _OTHER_LISTENER,
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: _OTHER_LISTENER,
}


@dataclass(frozen=True)
class Quorum:
    """The leader's description of itself and its replicas."""

    cluster_id: str
    partition: PartitionData
    nodes: Sequence[Node]


class _Refused(Exception):
    """A response with an error, or without a quorum. ``is_transient`` if a retry may succeed."""

    def __init__(self, text: str, *, is_transient: bool) -> None:
        super().__init__(text)
        self.is_transient = is_transient


def ask(
    addresses: Sequence[Address], controllers: bool, security: ClientSecurity, timeout_s: float
) -> Quorum:
    """Return the leader's description of the quorum, by way of the first of ``addresses`` that has
    one.

    ``controllers``: the addresses are of controllers, else of brokers. ``timeout_s``: for all
    attempts; a quorum without a leader is asked again until then. Raises click.ClickException with
    a sentence for each address that failed.
    """
    return trio.run(_ask, addresses, controllers, security, timeout_s)


async def _ask(
    addresses: Sequence[Address], controllers: bool, security: ClientSecurity, timeout_s: float
) -> Quorum:
    deadline = trio.current_time() + timeout_s
    while True:
        failures: dict[str, bool] = {}
        for address in addresses:
            left = deadline - trio.current_time()
            if left <= 0 and failures:
                break
            try:
                return await _ask_at(address, controllers, security, max(left, 0.001))
            except UpstreamError as failure:
                error = await explained(failure, address, security)
                failures[str(error)] = isinstance(error, ConnectionClosed | TimedOut)
            except _Refused as refusal:
                failures[str(refusal)] = refusal.is_transient
        # Waiting does not help if no controller can be reached, or none admits this client.
        if not any(failures.values()) or trio.current_time() + _PAUSE_S > deadline:
            raise click.ClickException("\n".join(failures))
        await trio.sleep(_PAUSE_S)


async def _ask_at(
    address: Address, controllers: bool, security: ClientSecurity, timeout_s: float
) -> Quorum:
    deadline = trio.current_time() + timeout_s
    upstream = await Upstream.connect(address, security, client_id=_CLIENT_ID, timeout_s=timeout_s)
    try:
        cluster = await _describe_cluster(
            upstream, _CONTROLLERS if controllers else _BROKERS, deadline
        )
        if controllers:
            active = _active(upstream, cluster)
            if active != address:
                await upstream.aclose()
                upstream = await Upstream.connect(
                    active, security, client_id=_CLIENT_ID, timeout_s=_left(deadline)
                )
        answer = await _describe_quorum(upstream, deadline)
        return _quorum(upstream, cluster.cluster_id, answer)
    finally:
        with trio.CancelScope(shield=True):
            await upstream.aclose()


async def _describe_cluster(
    upstream: Upstream, endpoint_type: int, deadline: float
) -> DescribeClusterResponse:
    first = 0 if endpoint_type == _BROKERS else _ENDPOINT_TYPES
    version = upstream.common_version(
        DescribeClusterRequest.API_KEY, range(first, DescribeClusterRequest.VERSIONS.stop)
    )
    request = DescribeClusterRequest(endpoint_type=endpoint_type)
    answer: DescribeClusterResponse = await upstream.call(
        request, version, timeout_s=_left(deadline)
    )
    _check(upstream, answer.error_code, answer.error_message)
    return answer


def _active(upstream: Upstream, cluster: DescribeClusterResponse) -> Address:
    for node in cluster.brokers:
        if node.broker_id == cluster.controller_id:
            return Address(node.host, node.port)
    raise _Refused(f"{_who(upstream)}: knows no active controller at the moment", is_transient=True)


async def _describe_quorum(upstream: Upstream, deadline: float) -> DescribeQuorumResponse:
    version = upstream.common_version(DescribeQuorumRequest.API_KEY, DescribeQuorumRequest.VERSIONS)
    request = DescribeQuorumRequest(
        topics=[
            Topic(
                topic_name=CLUSTER_METADATA_TOPIC, partitions=[Partition(partition_index=PARTITION)]
            )
        ]
    )
    answer: DescribeQuorumResponse = await upstream.call(
        request, version, timeout_s=_left(deadline)
    )
    _check(upstream, answer.error_code, answer.error_message)
    return answer


def _quorum(upstream: Upstream, cluster_id: str, answer: DescribeQuorumResponse) -> Quorum:
    partitions = [
        partition
        for topic in answer.topics
        if topic.topic_name == CLUSTER_METADATA_TOPIC
        for partition in topic.partitions
    ]
    if len(partitions) != 1 or partitions[0].partition_index != PARTITION:
        raise _Refused(
            f"{_who(upstream)}: its answer to DescribeQuorum does not describe the one quorum",
            is_transient=False,
        )
    _check(upstream, partitions[0].error_code, partitions[0].error_message)
    return Quorum(cluster_id, partitions[0], answer.nodes)


def _check(upstream: Upstream, code: int, message: str | None) -> None:
    """Raise _Refused for an error code."""
    if code == ErrorCode.NONE:
        return
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
    said = f": {message}" if message else ""
    raise _Refused(
        f"{_who(upstream)}: {name}{said}{_ADVICE.get(code, '')}", is_transient=code in _TRANSIENT
    )


def _who(upstream: Upstream) -> str:
    return str(upstream.address)


def _left(deadline: float) -> float:
    return max(deadline - trio.current_time(), 0.001)
