"""The topics in the subscriptions of consumers: the one thing the coordinator reads of what members
tell each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kwire.errors import DecodeError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

#: ``ConsumerProtocol.PROTOCOL_TYPE``
CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_VERSION_BYTES: Final = 2
#: Array elements in one subscription; more is not read, and then the topics are not known.
_ELEMENTS_MAX: Final = 100_000


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Every topic of these subscriptions (each an int16 version and a
    ConsumerProtocolSubscription), None if one is unreadable.

    Every version begins as version 0 does, so that is what is read: newer clients are understood
    too.
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
