"""Kafka's authorization questions as handlers ask them, and the bit field that tells a client what it may do.

It decides nothing: the authorizer of ``context.gateway`` does.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from gateway.ports import AUDIT_TOPIC, TOPIC_NAME

if TYPE_CHECKING:
    from gateway.handlers.context import Context

#: The one name of the CLUSTER resource (``Resource.CLUSTER_NAME``).
CLUSTER_NAME: Final = "kafka-cluster"
#: What the bit field holds when the client did not ask for it.
NOT_ASKED: Final = -(2**31)


class Operation(enum.IntEnum):
    """``AclOperation``: the number is the bit in the field of authorized operations."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11


# What can succeed here at all: no client writes, and changes are for where there is a controller.
TOPIC_OPERATIONS: Final = (Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
TOPIC_CHANGES: Final = (Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = (Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)
CLUSTER_CHANGES: Final = (Operation.CREATE, Operation.ALTER, Operation.CLUSTER_ACTION, Operation.ALTER_CONFIGS)


def may(context: Context, operation: Operation, topic: str) -> bool:
    """May who asked do ``operation`` on the topic of that name?"""
    return _allows(context, operation, "TOPIC", topic)


def may_on_cluster(context: Context, operation: Operation) -> bool:
    """May who asked do ``operation`` on the cluster?"""
    return _allows(context, operation, "CLUSTER", CLUSTER_NAME)


def topic_operations(context: Context, topic: str) -> int:
    """The bit field of what who asked may do with the topic (KIP-430)."""
    changeable = context.gateway.controller is not None and topic not in (TOPIC_NAME, AUDIT_TOPIC)
    possible = TOPIC_OPERATIONS + TOPIC_CHANGES if changeable else TOPIC_OPERATIONS
    return _bits(operation for operation in possible if may(context, operation, topic))


def cluster_operations(context: Context) -> int:
    """The bit field of what who asked may do with the cluster (KIP-430); nothing for who may not describe it, as in Kafka."""
    if not may_on_cluster(context, Operation.DESCRIBE):
        return 0
    changeable = context.gateway.controller is not None
    possible = CLUSTER_OPERATIONS + CLUSTER_CHANGES if changeable else CLUSTER_OPERATIONS
    return _bits(operation for operation in possible if may_on_cluster(context, operation))


def _allows(context: Context, operation: Operation, resource_type: str, name: str) -> bool:
    peer = context.peer
    return context.gateway.authorizer.allows(peer.principal, peer.host, operation.name, resource_type, name)


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)
