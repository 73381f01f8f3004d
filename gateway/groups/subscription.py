"""Reads the topics from the subscriptions of consumers.

Nothing else of the members' metadata is read: the protocol of a group belongs to its clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kwire.errors import DecodeError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

#: ``ConsumerProtocol.PROTOCOL_TYPE``
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2
#: The most array elements that are read of one subscription. The topics of a longer one are
#: unknown.
_ELEMENTS_MAX: Final = 100_000


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic of these subscriptions (each an int16 version and a
    ConsumerProtocolSubscription), None if one is unreadable.

    Every version begins with the fields of version 0. Only those are read, so that newer clients
    are understood, too.
    """
    topics: set[str] = set()
    for data in subscriptions:
        try:
            subscription = ConsumerProtocolSubscription.decode(
                data[_VERSION_BYTES:], 0, allow_trailing=True, budget=_ELEMENTS_MAX
            )
        except DecodeError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
