"""Says why a server gives no records of a topic, and what to do: the sentences of
``topic_reader``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.address import Address
from gateway.base.error_text import error_with_code, escape
from gateway.cli.server_nodes import ServerError
from gateway.ports.services import PARTITION
from gateway.server.node_client.errors import UpstreamError
from kwire.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from kwire.protocol import CLUSTER_METADATA_TOPIC, ErrorCode

if TYPE_CHECKING:
    from gateway.cli.server_options import Server
    from gateway.server.node_client.connection import Upstream

#: Errors that pass: during an election, or while a node starts or stops.
TRANSIENT: Final = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_ENDPOINTS: Final = 2  #: the version of DescribeQuorum that names the endpoints of controllers
_QUESTION_S: Final = 5.0


def check_error(upstream: Upstream, server: Server, topic: str, code: int, operation: str) -> None:
    """Raise ServerError for an error code of a request that needs ``operation`` on the topic."""
    if code == ErrorCode.NONE:
        return
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        sasl = server.security.sasl
        who = "the principal of this client" if sasl is None else f"User:{sasl.username}"
        principal = "PRINCIPAL" if sasl is None else f"User:{sasl.username}"
        raise ServerError(
            f"{upstream.address}: {who} may not {operation} topic {topic}"
            f" ({error_with_code(code)}); a super user can allow it: kafka-acls --bootstrap-server"
            f" {upstream.address} --add --allow-principal {principal} --operation Read --topic"
            f" {topic}"
        )
    raise ServerError(
        f"{upstream.address}: topic {topic}: {error_with_code(code)}",
        is_transient=code in TRANSIENT,
    )


def unknown_leader(where: str, topic: str, partition: int) -> ServerError:
    """Return the error for a partition without a leader."""
    return ServerError(
        f"{where}: {topic}-{partition} has no leader at the moment: its server is starting or down",
        is_transient=True,
    )


def not_a_broker(upstream: Upstream) -> ServerError:
    """Return the error for a listener that serves no topics."""
    address = upstream.address
    return ServerError(
        f"{address}: this is a controller, and controllers serve no topics; read from a client"
        " listener of `kwire serve` (its start line has the address), or start one for this quorum:"
        f" kwire serve --bootstrap-controller {address} --data-dir DIR"
    )


async def missing(upstream: Upstream, topic: str) -> ServerError:
    """Return the error for a topic that the server does not have."""
    address = upstream.address
    if topic != CLUSTER_METADATA_TOPIC:
        return ServerError(f"{address} has no topic {topic}")
    controllers = await _controllers(upstream)
    return ServerError(
        f"{address} has no topic {topic}: a Kafka broker does not serve its metadata log; start"
        f" kwire serve --bootstrap-controller {controllers or 'HOST:PORT'} --data-dir DIR, and read"
        " from that"
    )


async def _controllers(upstream: Upstream) -> str:
    """Return the addresses of the quorum's controllers as far as the broker tells, else nothing."""
    topics = [
        TopicData(
            topic_name=CLUSTER_METADATA_TOPIC,
            partitions=[PartitionData(partition_index=PARTITION)],
        )
    ]
    try:
        version = upstream.common_version(
            DescribeQuorumRequest.API_KEY, range(_ENDPOINTS, DescribeQuorumRequest.VERSIONS.stop)
        )
        answer = await upstream.call(
            DescribeQuorumRequest(topics=topics), version, timeout_s=_QUESTION_S
        )
    except UpstreamError:
        return ""
    found = (Address(one.host, one.port) for node in answer.nodes for one in node.listeners[:1])
    # One line, whatever the broker sends.
    return ",".join(str(escape(str(address))) for address in found)
