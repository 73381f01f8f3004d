"""Makes the records of consumer groups in Kafka's form (``GroupCoordinatorRecordHelpers``)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from gateway.base.java.hash_order import partitions_in_order, topics_in_order
from gateway.groups.consumer.member import Member, OwnedPartitions
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kwire.messages.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kwire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kwire.messages.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from kwire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kwire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kwire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kwire.messages.consumer_group_partition_metadata_value import (
    ConsumerGroupPartitionMetadataValue,
)
from kwire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kwire.messages.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from kwire.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from kwire.messages.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from kwire.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kwire.messages.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kwire.uuid import Uuid

_INT16: Final = struct.Struct(">h")
_VERSION: Final = 0
#: Type of a record, the number before its key -> classes of its key and value.
_CLASSES: Final[dict[int, tuple[type[Any], type[Any]]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
_TYPES: Final = {key_class: number for number, (key_class, _) in _CLASSES.items()}
RECORD_TYPES: Final = frozenset(_CLASSES)


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record as messages; a value of None deletes (``CoordinatorRecord``)."""

    key: Any
    value: Any

    @property
    def group_id(self) -> str:
        group_id: str = self.key.group_id
        return group_id

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value as the log has them."""
        key = _INT16.pack(_TYPES[type(self.key)]) + self.key.encode(_VERSION)
        value: Message | None = self.value
        return key, None if value is None else _INT16.pack(_VERSION) + value.encode(_VERSION)


def decode_record(key: bytes, value: bytes | None) -> ConsumerRecord:
    """Read a record whose type is one of ``RECORD_TYPES``. Raises DecodeError."""
    key_class, value_class = _CLASSES[_INT16.unpack_from(key)[0]]
    read = key_class.decode(key[_INT16.size :], _VERSION)
    if value is None:
        return ConsumerRecord(read, None)
    if len(value) < _INT16.size:
        raise DecodeError("a coordinator record without its version", rule="truncated")
    version = _INT16.unpack_from(value)[0]
    if version not in value_class.VERSIONS:
        raise DecodeError(
            f"{value_class.NAME} of unknown version {version}", rule="unknown-version"
        )
    return ConsumerRecord(read, value_class.decode(value[_INT16.size :], version))


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def group_epoch_tombstone(group_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupMetadataKey(group_id=group_id), None)


def subscription_metadata_tombstone(group_id: str) -> ConsumerRecord:
    """Of a record that Kafka before 4.1 wrote."""
    return ConsumerRecord(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_subscription(group_id: str, member: Member) -> ConsumerRecord:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return ConsumerRecord(key, value)


def target_assignment(
    group_id: str, member_id: str, target: Mapping[Uuid, Set[int]]
) -> ConsumerRecord:
    topics = [
        TopicPartition(topic_id=topic_id, partitions=partitions_in_order(target[topic_id]))
        for topic_id in topics_in_order(target)
    ]
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return ConsumerRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def target_assignment_epoch(group_id: str, epoch: int, wall_ms: int) -> ConsumerRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=wall_ms
    )
    return ConsumerRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def target_assignment_epoch_tombstone(group_id: str) -> ConsumerRecord:
    return ConsumerRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def current_assignment(group_id: str, member: Member) -> ConsumerRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return ConsumerRecord(key, value)


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerRecord]:
    """Remove a member: what it has, what it should have, what it subscribes to."""
    names = {"group_id": group_id, "member_id": member_id}
    return [
        ConsumerRecord(ConsumerGroupCurrentMemberAssignmentKey(**names), None),
        ConsumerRecord(ConsumerGroupTargetAssignmentMemberKey(**names), None),
        ConsumerRecord(ConsumerGroupMemberMetadataKey(**names), None),
    ]


def regular_expression(
    group_id: str, regex: str, topics: Set[str], version: int, wall_ms: int
) -> ConsumerRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(topics), version=version, timestamp=wall_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerRecord(key, value)


def regular_expression_tombstone(group_id: str, regex: str) -> ConsumerRecord:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return ConsumerRecord(key, None)


def _topic_partitions(owned: OwnedPartitions) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values())
        )
        for topic_id, epochs in owned.items()
    ]


def owned_partitions(topics: list[TopicPartitions], member_epoch: int) -> OwnedPartitions:
    """Partitions with their epochs; those of Kafka before 4.3 have none and get the member's."""
    owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
