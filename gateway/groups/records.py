"""Encodes groups and offsets as the records of ``__consumer_offsets``, and reads such records.
(``consumer.records`` encodes those of groups of KIP-848.)

A key is an int16 of the record's type and an ``OffsetCommitKey`` or ``GroupMetadataKey``; a value
is an int16 of its version and the message. ``kafka-dump-log.sh --offsets-decoder`` reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.records import RECORD_TYPES, ConsumerRecord, decode_record
from gateway.groups.effects import Record
from gateway.groups.events import Committed, Protocol, TopicPartition
from gateway.groups.group import Group, State
from gateway.groups.member import Member
from gateway.groups.usage import Usage
from kwire.errors import DecodeError
from kwire.message import Message
from kwire.messages.group_metadata_key import GroupMetadataKey
from kwire.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kwire.messages.offset_commit_key import OffsetCommitKey
from kwire.messages.offset_commit_value import OffsetCommitValue

_INT16: Final = struct.Struct(">h")
#: Kafka writes offset keys as type 1 (before 0.9 as type 0) and group keys as type 2.
_OFFSET_TYPES: Final = (0, 1)
_GROUP_TYPE: Final = 2
_GROUP_VERSION: Final = 3
_OFFSET_VERSION: Final = 3
#: The only version that has an expiry time.
_OFFSET_VERSION_WITH_EXPIRY: Final = 1


def group_record(group: Group) -> Record:
    """The record of a group: generation, leader, members with subscriptions and assignments
    (``newGroupMetadataRecord``).
    """
    name = group.protocol_name
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(name) if name is not None else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=name,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=members,
    )
    return _group_key(group.group_id), _versioned(value, _GROUP_VERSION)


def group_tombstone(group_id: str) -> Record:
    return _group_key(group_id), None


def offset_record(group_id: str, where: TopicPartition, committed: Committed) -> Record:
    version = _OFFSET_VERSION if committed.expire_timestamp == -1 else _OFFSET_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp,
        expire_timestamp=committed.expire_timestamp,
    )
    return _offset_key(group_id, where), _versioned(value, version)


def offset_tombstone(group_id: str, where: TopicPartition) -> Record:
    return _offset_key(group_id, where), None


def read_record(
    key: bytes, value: bytes
) -> tuple[str, TopicPartition, Committed] | GroupMetadata | ConsumerRecord | None:
    """An offset with its group and partition, a group, or a record of a consumer group; None for a
    record of share groups and streams groups.

    Raises DecodeError.
    """
    kind, version = _prefix(key), _prefix(value)
    if kind in _OFFSET_TYPES:
        whose = OffsetCommitKey.decode(key[2:], 0)
        read = OffsetCommitValue.decode(value[2:], _known(version, OffsetCommitValue))
        committed = Committed(
            read.offset,
            read.leader_epoch,
            read.metadata,
            read.commit_timestamp,
            read.expire_timestamp,
        )
        return whose.group, (whose.topic, whose.partition), committed
    if kind == _GROUP_TYPE:
        group_id = GroupMetadataKey.decode(key[2:], 0).group
        return GroupMetadata(
            group_id, GroupMetadataValue.decode(value[2:], _known(version, GroupMetadataValue))
        )
    return decode_record(key, value) if kind in RECORD_TYPES else None


def group_id_of(key: bytes) -> str:
    """Return the group that a key belongs to: of all types it is the first field. Raises
    DecodeError.
    """
    return GroupMetadataKey.decode(_first_text(key), 0).group


def _first_text(key: bytes) -> bytes:
    end = 2 * _INT16.size + _prefix(key[_INT16.size :])
    return key[_INT16.size : end]


class GroupMetadata:
    """A group that was read from its record."""

    def __init__(self, group_id: str, value: GroupMetadataValue) -> None:
        self.group_id = group_id
        self._value = value

    def restore(self, group: Group) -> None:
        """Restore ``group``, which is new. A group with members becomes stable, and its members
        continue with heartbeats.
        """
        value = self._value
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.state_since_ms = value.current_state_timestamp
        group.is_stored = True
        for member in value.members:
            group.add(_member(member, value))
        if group.members:
            group.state = State.STABLE
            group.leader = (
                value.leader if value.leader in group.members else next(iter(group.members))
            )
        group.learn_subscribed_topics()


def _member(member: MemberMetadata, value: GroupMetadataValue) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.session_timeout
        if member.rebalance_timeout == -1
        else member.rebalance_timeout,
        session_timeout_ms=member.session_timeout,
        protocol_type=value.protocol_type,
        protocols=(Protocol(value.protocol or "", member.subscription),),
        assignment=member.assignment,
    )


def restore_groups(
    records: list[tuple[bytes, bytes]],
    usage: Usage,
    wall_ms: int,
    owners: Mapping[bytes, str] = MappingProxyType({}),
) -> dict[str, Group]:
    """Restore every group of these records (key, newest value). Raises DecodeError for one that
    cannot be read.

    ``owners``: key of an offset -> the owner that it is charged to. A group is charged to the owner
    of its first offset; its members have no owner until they join again, since Kafka's records do
    not name their principals.
    """
    groups: dict[str, Group] = {}
    offsets: list[tuple[str, TopicPartition, Committed]] = []
    metadata: list[GroupMetadata] = []
    consumers: dict[str, ConsumerGroup] = {}
    of_consumers: dict[str, list[tuple[bytes, bytes]]] = {}
    first_owner: dict[str, str] = {}
    for key, value in records:
        item = read_record(key, value)
        if isinstance(item, GroupMetadata):
            metadata.append(item)
        elif isinstance(item, ConsumerRecord):
            group_id = item.group_id
            first_owner.setdefault(group_id, owners.get(key, ""))
            of_consumers.setdefault(group_id, []).append((key, value))
            consumers.setdefault(group_id, ConsumerGroup(group_id)).replay(item)
        elif item is not None:
            group_id, where, committed = item
            owner = owners.get(key, "")
            first_owner.setdefault(group_id, owner)
            offsets.append((group_id, where, committed._replace(owner=owner)))
    for group_read in metadata:
        group = groups[group_read.group_id] = Group(
            group_read.group_id, usage, wall_ms, first_owner.get(group_read.group_id, "")
        )
        group_read.restore(group)
    for group_id, consumer in consumers.items():
        group = groups.get(group_id) or Group(group_id, usage, wall_ms, first_owner[group_id])
        groups[group_id] = group
        group.consumer = consumer
        for key, value in of_consumers[group_id]:
            group.ledger.apply(group.charge, [(key, value)], owners.get(key, ""))
    for group_id, where, committed in offsets:
        if group_id not in groups:  # a group without a group record: no member ever joined it
            groups[group_id] = Group(group_id, usage, wall_ms, first_owner[group_id])
        groups[group_id].commit(where, committed)
    return groups


def _group_key(group_id: str) -> bytes:
    return _INT16.pack(_GROUP_TYPE) + GroupMetadataKey(group=group_id).encode(0)


def _offset_key(group_id: str, where: TopicPartition) -> bytes:
    topic, partition = where
    return _INT16.pack(_OFFSET_TYPES[-1]) + OffsetCommitKey(
        group=group_id, topic=topic, partition=partition
    ).encode(0)


def _versioned(message: Message, version: int) -> bytes:
    return _INT16.pack(version) + message.encode(version)


def _prefix(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise DecodeError("a coordinator record without its type or version", rule="truncated")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _known(version: int, cls: type[Message]) -> int:
    if version not in cls.VERSIONS:
        raise DecodeError(f"{cls.NAME} of unknown version {version}", rule="unknown-version")
    return version
