"""Reads and writes what consumers put into the classic protocol: subscriptions and assignments,
each after an int16 of its version (``ConsumerProtocol``).

A classic group looks at the topics of its members' subscriptions alone; a group that changes to the
protocol of KIP-848, or back, needs the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from kwire.errors import DecodeError
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

#: ``ConsumerProtocol.PROTOCOL_TYPE``
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
#: The most topics that are read of all subscriptions of a group. The topics of a group with more
#: are unknown: reading so many takes about 10 ms, at each rebalance.
ELEMENTS_MAX: Final = 50_000


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic of these subscriptions, None if one is unreadable or they have too many.

    Every version begins with the fields of version 0. Only those are read, so that newer clients
    are understood, too. Equal subscriptions are read once: most members of a group have the same.
    """
    topics: set[str] = set()
    left = ELEMENTS_MAX
    for data in dict.fromkeys(subscriptions):
        try:
            subscription = ConsumerProtocolSubscription.decode(
                data[_VERSION.size :], 0, allow_trailing=True, budget=left
            )
        except DecodeError:
            return None
        left -= len(subscription.topics)
        topics.update(subscription.topics)
    return frozenset(topics)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Read a subscription in its version, one of a newer client in the newest known version. Raises
    DecodeError.
    """
    version = min(_version(data), ConsumerProtocolSubscription.VERSIONS[-1])
    return ConsumerProtocolSubscription.decode(
        data[_VERSION.size :], version, allow_trailing=True, budget=ELEMENTS_MAX
    )


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Read an assignment; no bytes are one without partitions. Raises DecodeError."""
    if not data:
        return ConsumerProtocolAssignment()
    version = min(_version(data), ConsumerProtocolAssignment.VERSIONS[-1])
    return ConsumerProtocolAssignment.decode(
        data[_VERSION.size :], version, allow_trailing=True, budget=ELEMENTS_MAX
    )


def assignment_bytes(partitions: Mapping[str, Iterable[int]], subscription: bytes) -> bytes:
    """The assignment of these partitions by topic, in the version of the member's subscription, or
    the newest known one; the first one if the subscription has none.
    """
    try:
        version = min(_version(subscription), ConsumerProtocolAssignment.VERSIONS[-1])
    except DecodeError:
        version = 0
    assigned = [
        TopicPartition(topic=topic, partitions=sorted(some)) for topic, some in partitions.items()
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _VERSION.pack(version) + message.encode(version)


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError("data of a consumer without its version", rule="truncated")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"data of a consumer of version {version}", rule="unknown-version")
    return version
