"""Checks the offsets that members of consumer groups commit
(``createAssignmentEpochValidator``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gateway.groups.consumer.topics import Topics
from kwire.protocol import ErrorCode
from kwire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from gateway.groups.consumer.group import ConsumerGroup
    from gateway.groups.events import OffsetToCommit


def partitions_fault(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    offsets: Iterable[OffsetToCommit],
    topics: Topics,
) -> ErrorCode:
    """The error of a commit whose member is known; that of one partition is that of all."""
    for one in offsets:
        topic_id = one.topic_id
        if topic_id == ZERO_UUID:
            topic = topics.named(one.topic)
            topic_id = ZERO_UUID if topic is None else topic.topic_id
        fault = group.partition_fault(member_id, epoch, topic_id, one.partition)
        if fault is not ErrorCode.NONE:
            return fault
    return ErrorCode.NONE
