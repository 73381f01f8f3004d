"""Counts how often the topics of a consumer group are subscribed to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gateway.groups.consumer.assignors.group_spec import SubscriptionType


class SubscriptionCount(NamedTuple):
    """How often a topic is subscribed to: by members that name it, and by expressions."""

    by_name: int = 0
    by_regex: int = 0


def count(
    topics: dict[str, SubscriptionCount], name: str, *, by_name: int = 0, by_regex: int = 0
) -> None:
    """Change how often a topic is subscribed to."""
    before = topics.get(name, SubscriptionCount())
    after = SubscriptionCount(before.by_name + by_name, before.by_regex + by_regex)
    if after.by_name or after.by_regex:
        topics[name] = after
    else:
        topics.pop(name, None)


def subscription_type(
    regexes: Mapping[str, int], topics: Mapping[str, SubscriptionCount], members: int
) -> SubscriptionType:
    """Whether all members subscribe to the same topics (``ConsumerGroup.subscriptionType``)."""
    if not regexes:
        is_even = all(count.by_name == members for count in topics.values())
    elif next(iter(regexes.values())) == members:
        is_even = all(count == (0, 1) for count in topics.values())
    else:
        is_even = False
    return SubscriptionType.HOMOGENEOUS if is_even else SubscriptionType.HETEROGENEOUS
