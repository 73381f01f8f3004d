"""Reads the topics from the subscriptions of consumers.

The other fields of the members' metadata are not read: the protocol of a group belongs to its
clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kwire.errors import DecodeError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

#: ``ConsumerProtocol.PROTOCOL_TYPE``
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2
#: The most topics that are read of all subscriptions of a group. The topics of a group with more
#: are unknown: reading so many takes about 10 ms, at each rebalance.
ELEMENTS_MAX: Final = 50_000


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic of these subscriptions (each an int16 version and a
    ConsumerProtocolSubscription), None if one is unreadable or they have too many.

    Every version begins with the fields of version 0. Only those are read, so that newer clients
    are understood, too. Equal subscriptions are read once: most members of a group have the same.
    """
    topics: set[str] = set()
    left = ELEMENTS_MAX
    for data in dict.fromkeys(subscriptions):
        try:
            subscription = ConsumerProtocolSubscription.decode(
                data[_VERSION_BYTES:], 0, allow_trailing=True, budget=left
            )
        except DecodeError:
            return None
        left -= len(subscription.topics)
        topics.update(subscription.topics)
    return frozenset(topics)
