"""Asks the authorizer for handlers, and builds the bit field of authorized operations (KIP-430).

It decides nothing: the authorizer of ``context.gateway`` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.controller.topic_names import RESERVED_TOPICS
from gateway.ports.services import Requester
from kwire.protocol import AclOperation

if TYPE_CHECKING:
    from gateway.handlers.context import Context

#: The one name of the CLUSTER resource (``Resource.CLUSTER_NAME``).
CLUSTER_NAME: Final = "kafka-cluster"
#: The bit field if the client did not request it.
NOT_ASKED: Final = -(2**31)


#: The number of an operation is its bit in the field of authorized operations.
Operation = AclOperation

# Only operations that this server can carry out: WRITE needs a broker, changes need a controller.
TOPIC_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
TOPIC_CHANGES: Final = (
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.ALTER_CONFIGS,
)
CLUSTER_OPERATIONS: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
CLUSTER_CHANGES: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.CLUSTER_ACTION,
    Operation.ALTER_CONFIGS,
)


def may(context: Context, operation: Operation, topic: str) -> bool:
    """Whether the client may do ``operation`` on the topic of that name."""
    return _allows(context, operation, "TOPIC", topic)


def may_on_cluster(context: Context, operation: Operation) -> bool:
    """Whether the client may do ``operation`` on the cluster."""
    return _allows(context, operation, "CLUSTER", CLUSTER_NAME)


def requester_of(context: Context) -> Requester:
    """Return the client as the controller authorizes it."""
    peer = context.peer
    return Requester(
        peer.principal,
        peer.host,
        context.client_id,
        peer.token_authenticated,
        peer.listener,
        peer.forwarder,
    )


def topic_operations(context: Context, topic: str) -> int:
    """Return the bit field of the client's authorized operations on the topic (KIP-430)."""
    changeable = context.gateway.controller is not None and topic not in RESERVED_TOPICS
    possible = TOPIC_OPERATIONS + TOPIC_CHANGES if changeable else TOPIC_OPERATIONS
    if changeable and context.gateway.replicas is not None:
        possible = (*possible, Operation.WRITE)
    return _bits(operation for operation in possible if may(context, operation, topic))


def cluster_operations(context: Context) -> int:
    """Return the bit field of the client's authorized operations on the cluster; none without
    DESCRIBE, as in Kafka.
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        return 0
    changeable = context.gateway.controller is not None
    possible = CLUSTER_OPERATIONS + CLUSTER_CHANGES if changeable else CLUSTER_OPERATIONS
    return _bits(operation for operation in possible if may_on_cluster(context, operation))


def _allows(context: Context, operation: Operation, resource_type: str, name: str) -> bool:
    peer = context.peer
    return context.gateway.authorizer.allows(
        peer.principal, peer.host, operation.name, resource_type, name
    )


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)
