"""Handles JoinGroup, SyncGroup and Heartbeat of members of consumer groups that use the classic
protocol: those of a group that was converted, and those that joined since.

Such a member joins to tell what it subscribes to and has, as a ConsumerGroupHeartbeat does, and
syncs to learn what it is assigned; a heartbeat tells it when to join again. No member leads, and
none waits for another. Follows ``classicGroupJoinToConsumerGroup``,
``classicGroupSyncToConsumerGroup`` and ``classicGroupHeartbeatToConsumerGroup`` of Kafka's
``GroupMetadataManager``.
"""

from __future__ import annotations

from dataclasses import replace

from gateway.base.migration_policy import MigrationPolicy
from gateway.base.slices import Slices
from gateway.groups.consumer.changes import JOIN_TIMER, SYNC_TIMER, Changed, Changes, replace_static
from gateway.groups.consumer.conversion import TOPICS_PER_SLICE, classic_metadata, named_partitions
from gateway.groups.consumer.faults import (
    RefusedError,
    check_instance,
    check_room,
    unknown_member,
)
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.member import Member, MemberState
from gateway.groups.consumer.reconciliation import Reported
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.subscriptions import Heartbeat as Change
from gateway.groups.consumer.subscriptions import RegexStatus
from gateway.groups.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    assignment_bytes,
    read_subscription,
)
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import (
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    SyncGroup,
    SyncResult,
)
from gateway.groups.group import Group
from kwire.errors import DecodeError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid


class ClassicMembers:
    """Handles the classic members of the consumer groups in ``state``."""

    def __init__(self, state: CoordinatorState, changes: Changes) -> None:
        self._state = state
        self._changes = changes

    # JoinGroup.

    def join(
        self, asked: PendingRequest, event: JoinGroup, group: Group, kept: ConsumerGroup
    ) -> Slices[None]:
        """Answer the JoinGroup at once, with the member's epoch as its generation."""
        try:
            yield from self._join(asked, event, group, kept)
        except RefusedError as refused:
            self._state.answer(asked, JoinResult(error=refused.fault.error, member_id=""))

    def _join(
        self, asked: PendingRequest, event: JoinGroup, group: Group, kept: ConsumerGroup
    ) -> Slices[None]:
        member_id = event.member_id or str(Uuid(self._state.moment.random_bytes))
        self._check_join(event, kept, member_id)
        if not event.member_id and event.instance_id is None and event.member_id_required:
            required = JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            self._state.answer(asked, required)
            return
        records: list[ConsumerRecord] = []
        member = self._member(event, kept, member_id, records)
        subscription = _subscription(event)
        updated = _updated(member, event, subscription)
        beat = Change(kept, member, updated, records, self._state.moment.wall_ms)
        names_changed, status, _ = self._changes.note_subscription(beat)
        has_changed = names_changed or status is not RegexStatus.UNCHANGED
        changed = Changed(bump=has_changed, subscription=has_changed)
        owned = yield from self._owned(subscription)
        replaced = kept.static_member(event.instance_id)
        if self._changes.conversion.may_downgrade_instead_of(kept, replaced):
            assert replaced is not None
            after = yield from self._join_downgraded(group, beat, changed, owned, replaced)
        else:
            after = yield from self._changes.advance(group, beat, changed, owned, event.owner)
            self._state.cancel(JOIN_TIMER, group, member_id)
            self._changes.await_heartbeat(group, after)
            timeout_ms = event.rebalance_timeout_ms
            self._state.schedule(SYNC_TIMER, group, timeout_ms, member_id)
        result = JoinResult(
            error=ErrorCode.NONE,
            member_id=member_id,
            generation=after.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=after.protocol_name,
        )
        self._state.answer(asked, result, group)

    def _check_join(self, event: JoinGroup, kept: ConsumerGroup, member_id: str) -> None:
        """Raise RefusedError if no such member may join."""
        settings = self._state.settings
        if settings.consumer_migration_policy is MigrationPolicy.DISABLED:
            raise RefusedError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Cannot join the consumer group {kept.group_id} with the classic protocol because "
                "the group migration is disabled.",
            )
        check_room(kept.members, member_id, settings.consumer_max_size)
        names = [protocol.name for protocol in event.protocols]
        if not kept.supports_classic(event.protocol_type, names):
            raise RefusedError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Member {member_id}'s protocols are not supported.",
            )

    def _member(
        self, event: JoinGroup, kept: ConsumerGroup, member_id: str, records: list[ConsumerRecord]
    ) -> Member:
        """The member that joins, which may be new. Raises RefusedError."""
        known = kept.static_member(event.instance_id)
        if event.instance_id is not None and event.member_id:
            return check_instance(known, member_id, event.instance_id)
        if known is not None:
            return replace_static(kept, known, member_id, records)
        return kept.members.get(member_id) or Member(member_id)

    def _join_downgraded(
        self, group: Group, beat: Change, changed: Changed, owned: Reported, replaced: Member
    ) -> Slices[Member]:
        """Have the member take the place of the last one with the protocol of KIP-848, in a classic
        group. It rebalances unless the assignment is up to date.
        """
        kept, after = beat.group, beat.updated
        epoch, _ = yield from self._changes.subscriptions.update_epoch(beat, changed.bump)
        is_stale = kept.assignment_epoch < epoch
        target = kept.target_of(after.member_id, after.instance_id)
        if not is_stale:
            after = self._changes.reconcile(
                beat, changed.subscription, kept.assignment_epoch, target, owned
            )
        yield from self._changes.cancel(group, kept.members.values())
        staying = [one for one in kept.members.values() if one is not replaced]
        targets = {**kept.target, after.member_id: target}
        yield from self._changes.conversion.downgrade(group, kept, [*staying, after], targets)
        if is_stale:
            self._changes.conversion.rebalance(group)
        return after

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Slices[Reported]:
        owned = []
        for number, one in enumerate(subscription.owned_partitions):
            topic = self._state.topics.named(one.topic)
            if topic is not None:
                owned.append((topic.topic_id, one.partitions))
            if number % TOPICS_PER_SLICE == 0:
                yield
        return owned

    # SyncGroup.

    def sync(
        self, asked: PendingRequest, event: SyncGroup, group: Group, kept: ConsumerGroup
    ) -> Slices[None]:
        """Answer with what the member is assigned."""
        member = _classic_member(kept, event)
        fault = _fault(member, event.generation)
        if isinstance(member, Member) and fault is ErrorCode.NONE:
            fault = self._sync_fault(event, group, kept, member)
        if fault is not ErrorCode.NONE or not isinstance(member, Member):
            self._state.answer(asked, event.failed(fault))
            return
        assert member.classic is not None
        self._state.cancel(SYNC_TIMER, group, member.member_id)
        self._changes.await_heartbeat(group, member)
        result = SyncResult(
            error=ErrorCode.NONE,
            protocol_type=event.protocol_type,
            protocol_name=event.protocol_name,
            assignment=assignment_bytes(
                (yield from named_partitions(self._state.topics, member.assigned)),
                member.classic.supported_protocols[0].metadata,
            ),
        )
        self._state.answer(asked, result, group)

    def _sync_fault(
        self, event: SyncGroup, group: Group, kept: ConsumerGroup, member: Member
    ) -> ErrorCode:
        if event.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if event.protocol_name not in (None, member.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        # A member that has to give partitions up first has joined already.
        if kept.assignment_epoch > member.epoch and (
            member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._await_join(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # Heartbeat.

    def heartbeat(
        self, asked: PendingRequest, event: Heartbeat, group: Group, kept: ConsumerGroup
    ) -> None:
        """Start the member's session timeout again, and have it join if that takes it further."""
        member = _classic_member(kept, event)
        fault = _fault(member, event.generation)
        if isinstance(member, Member) and fault is ErrorCode.NONE:
            self._changes.await_heartbeat(group, member)
            if _may_advance(kept, member):
                fault = ErrorCode.REBALANCE_IN_PROGRESS
                self._await_join(group, member)
        self._state.answer(asked, HeartbeatResult(error=fault))

    def _await_join(self, group: Group, member: Member) -> None:
        """Give the member its rebalance timeout to join, from the first time that it is told."""
        timeout_ms = member.rebalance_timeout_ms
        self._state.schedule_once(JOIN_TIMER, group, timeout_ms, member.member_id)


def _subscription(event: JoinGroup) -> ConsumerProtocolSubscription:
    """Read the member's subscription, which is that of all its protocols. Raises RefusedError."""
    try:
        return read_subscription(event.protocols[0].metadata)
    except DecodeError as error:
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None


def _updated(
    member: Member, event: JoinGroup, subscription: ConsumerProtocolSubscription
) -> Member:
    """The member with what the request says of it."""
    timeout_ms = event.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=event.client_id,
        client_host=event.client_host,
        classic=classic_metadata(event.session_timeout_ms, event.protocols),
    )


def _classic_member(group: ConsumerGroup, event: SyncGroup | Heartbeat) -> Member | ErrorCode:
    """The classic member that sends the request, or the error of the request."""
    try:
        if event.instance_id is None:
            member = group.members.get(event.member_id)
            if member is None:
                raise unknown_member(event.member_id, group.group_id)
        else:
            known = group.static_member(event.instance_id)
            member = check_instance(known, event.member_id, event.instance_id)
    except RefusedError as refused:
        return refused.fault.error
    return ErrorCode.UNKNOWN_MEMBER_ID if member.classic is None else member


def _fault(member: Member | ErrorCode, generation: int) -> ErrorCode:
    if not isinstance(member, Member):
        return member
    return ErrorCode.NONE if generation == member.epoch else ErrorCode.ILLEGAL_GENERATION


def _may_advance(group: ConsumerGroup, member: Member) -> bool:
    """Whether the member gets further by joining: there is a new assignment, it has to say that it
    gave partitions up, or those that it waits for are free.
    """
    return (
        member.epoch < group.assignment_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
        )
    )
