"""Converts groups with members from the classic protocol to that of KIP-848, and back.

An upgrade keeps each classic member, with what it has: the members go on in the classic protocol,
and ``classic_members`` answers them. A downgrade makes a group of classic members alone a classic
one. ``group.consumer.migration.policy`` allows them. Follows ``convertToConsumerGroup`` and
``convertToClassicGroup`` of Kafka's ``GroupMetadataManager``, ``ConsumerGroup.fromClassicGroup``
and ``ClassicGroup.fromConsumerGroup``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Final

from gateway.base.slices import Slices, pieces
from gateway.groups.consumer import records as make
from gateway.groups.consumer.applying import RECORDS_PER_SLICE, Converted, HalfAppliedError
from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.faults import RefusedError
from gateway.groups.consumer.group import NOTHING_ASSIGNED, ConsumerGroup
from gateway.groups.consumer.member import Member
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.subscriptions import Subscriptions
from gateway.groups.consumer.topics import Topics
from gateway.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import Record
from gateway.groups.events import JoinResult, Protocol
from gateway.groups.group import Group
from gateway.groups.member import Member as ClassicMember
from gateway.groups.rebalance import Rebalance
from gateway.groups.records import group_record
from kwire.errors import DecodeError
from kwire.messages.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
)
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: Topics of one member that are looked up between two slices.
TOPICS_PER_SLICE: Final = 100


class Conversion:
    """Converts the groups in ``state``."""

    def __init__(
        self, state: CoordinatorState, rebalance: Rebalance, subscriptions: Subscriptions
    ) -> None:
        self._state = state
        self._rebalance = rebalance
        self._subscriptions = subscriptions

    # From the classic protocol.

    def upgrade(self, group: Group) -> Slices[tuple[ConsumerGroup, Converted]]:
        """The consumer group that this classic group, which has members, would be, and its records.
        The group itself stays as it is until these are applied. Raises RefusedError.
        """
        fault = self._upgrade_fault(group)
        if fault is not None:
            raise _cannot_upgrade(group, fault)
        name = group.protocol_name or group.select_protocol()
        kept = ConsumerGroup(group.group_id)
        members = []
        owned: set[tuple[Uuid, int]] = set()
        for member in group.members.values():
            upgraded = yield from _upgraded(group, member, name, self._state.topics)
            has = {(one, index) for one, some in upgraded.assigned.items() for index in some}
            if not has.isdisjoint(owned):
                raise _cannot_upgrade(group, "two of its members have the same partition")
            owned |= has
            members.append(upgraded)
            yield
        group_id, epoch = group.group_id, group.generation
        records = yield from _replayed(
            kept, (make.member_subscription(group_id, member) for member in members)
        )
        metadata_hash = yield from self._subscriptions.hash_of(kept.topics)
        records += yield from _replayed(
            kept,
            chain(
                [make.group_epoch(group_id, epoch, metadata_hash)],
                (
                    make.target_assignment(group_id, one.member_id, one.assignment)
                    for one in members
                ),
                [make.target_assignment_epoch(group_id, epoch, 0)],
                (make.current_assignment(group_id, member) for member in members),
            ),
        )
        owners = {member.member_id: member.owner for member in group.members.values()}
        return kept, Converted(records, owners)

    def _upgrade_fault(self, group: Group) -> str | None:
        settings = self._state.settings
        if not settings.consumer_migration_policy.allows_upgrade:
            return "online upgrade is disabled"
        if not group.uses_consumer_protocol:
            return "the group does not use the consumer embedded protocol"
        if len(group.members) > settings.consumer_max_size:
            return "the group size exceeds the consumer group maximum size"
        return None

    def dismiss(self, group: Group, members: Collection[ClassicMember]) -> Slices[None]:
        """Answer the requests that wait for a generation of the group that was, and cancel its
        timers. The members join again.
        """
        for member in members:
            yield
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._rebalance.release_join(
                member, JoinResult(error=error, member_id=member.member_id)
            )
            self._rebalance.release_sync(member, error)
            self._state.cancel("heartbeat", group, member.member_id)
        self._state.cancel("join", group)
        self._state.cancel("sync", group)

    # To the classic protocol.

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[Member]) -> bool:
        """Whether the group becomes a classic one when these members leave."""
        left = len(group.members) - len(leaving)
        classic = group.classic_members - sum(one.classic is not None for one in leaving)
        return 0 < left == classic and self._allows_downgrade(left)

    def may_downgrade_instead_of(self, group: ConsumerGroup, replaced: Member | None) -> bool:
        """Whether the group becomes a classic one when a classic member replaces this static
        member.
        """
        return (
            replaced is not None
            and replaced.classic is None
            and group.classic_members == len(group.members) - 1
            and self._allows_downgrade(len(group.members))
        )

    def _allows_downgrade(self, members: int) -> bool:
        settings = self._state.settings
        policy = settings.consumer_migration_policy
        return policy.allows_downgrade and members <= settings.max_size

    def downgrade(
        self,
        group: Group,
        kept: ConsumerGroup,
        staying: Collection[Member],
        targets: Mapping[str, Assignment] | None = None,
    ) -> Slices[None]:
        """Make the group a stable classic one of these members, whose assignments are what they
        should have: ``targets``, or those of the group.
        """
        targets = kept.target if targets is None else targets
        members = []
        for member in staying:
            members.append(_downgraded(member, group.ledger.owner_of(_key_of(group, member))))
            yield
        records: list[Record] = []
        for some in pieces(kept.tombstones(), RECORDS_PER_SLICE):
            records += [record.encode() for record in some]
            yield
        try:
            yield from self._state.end_consumer(group)
            for classic in members:
                group.add(classic)
                yield
            group.become_stable(kept.epoch, self._state.moment.wall_ms)
            for classic in members:
                target = targets.get(classic.member_id, NOTHING_ASSIGNED)
                named = yield from named_partitions(self._state.topics, target)
                subscription = classic.metadata(group.protocol_name or "")
                group.assign(classic, assignment_bytes(named, subscription))
                self._rebalance.await_heartbeat(group, classic)
                yield
            records.append(group_record(group))
        except Exception as error:
            raise HalfAppliedError from error
        self._state.persist(group, records)
        self._state.report_conversion(group)

    def rebalance(self, group: Group) -> None:
        """Have the members of a group that was downgraded join."""
        self._rebalance.prepare(group)


def _replayed(
    group: ConsumerGroup, records: Iterable[ConsumerRecord]
) -> Slices[list[ConsumerRecord]]:
    """Apply records as they are made, and return them."""
    replayed = []
    for some in pieces(records, RECORDS_PER_SLICE):
        for record in some:
            group.replay(record)
        replayed += some
        yield
    return replayed


def classic_metadata(
    session_timeout_ms: int, protocols: tuple[Protocol, ...]
) -> ClassicMemberMetadata:
    """Make what only the record of a classic member has."""
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=one.name, metadata=one.metadata) for one in protocols
        ],
    )


def named_partitions(
    topics: Topics, partitions: Mapping[Uuid, Iterable[int]]
) -> Slices[dict[str, Iterable[int]]]:
    """Partitions by the names of their topics, of those that exist
    (``Utils.toConsumerProtocolAssignment``).
    """
    named = {}
    for number, (topic_id, some) in enumerate(partitions.items()):
        topic = topics.with_id(topic_id)
        if topic is not None:
            named[topic.name] = some
        if number % TOPICS_PER_SLICE == 0:
            yield
    return named


def _upgraded(group: Group, member: ClassicMember, protocol: str, topics: Topics) -> Slices[Member]:
    """The member with what it has, in the generation of its group. Raises RefusedError."""
    try:
        subscription = read_subscription(member.metadata(protocol))
        assignment = read_assignment(member.assignment)
    except DecodeError:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from None
    if assignment.user_data:
        raise _cannot_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade",
        )
    assigned: dict[Uuid, dict[int, int]] = {}
    for number, one in enumerate(assignment.assigned_partitions):
        topic = topics.named(one.topic)
        if topic is not None:
            # The leader may have assigned others: those of a topic that had the name before.
            exist = (index for index in one.partitions if 0 <= index < topic.partitions)
            new = dict.fromkeys(exist, group.generation)
            assigned.setdefault(topic.topic_id, {}).update(new)
        if number % TOPICS_PER_SLICE == 0:
            yield
    return Member(
        member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _downgraded(member: Member, owner: str) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=tuple(
            Protocol(one.name, one.metadata) for one in member.classic.supported_protocols
        ),
        owner=owner,
    )


def _key_of(group: Group, member: Member) -> bytes:
    return make.member_tombstones(group.group_id, member.member_id)[-1].encode()[0]


def _cannot_upgrade(group: Group, why: str) -> RefusedError:
    return RefusedError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )
