"""Finds the topic of a Fetch request, as its client may read it at that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.access import Operation, may
from gateway.handlers.catalog import Topic, topic_named, topic_with_id
from kwire.protocol import ErrorCode

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.uuid import Uuid

#: The first version with topic ids instead of names (KIP-516).
BY_ID: Final = 13


def readable_topic(
    name: str, topic_id: Uuid, context: Context, may_replicate: bool | None
) -> Topic | ErrorCode:
    """Return the topic of this id, or of this name in versions without ids; the error of its
    partitions where there is none, or where the client may not read it. ``may_replicate``: whether
    it may as a follower, None for a consumer.
    """
    # As in Kafka: an unknown id gets UNKNOWN_TOPIC_ID, which reveals no name. With a name the
    # authorization comes before existence, so that the error does not tell whether the topic
    # exists.
    if context.version >= BY_ID:
        found = topic_with_id(topic_id, context)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = topic_named(name, context)
    allowed = may_replicate
    if allowed is None:
        allowed = may(context, Operation.READ, name if found is None else found.name)
    if not allowed:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found
