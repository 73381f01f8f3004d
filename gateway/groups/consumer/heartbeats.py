"""Handles ConsumerGroupHeartbeat: members of consumer groups join, take over their assignments,
and leave.

All that a heartbeat changes is computed first, as records, against the group as it was; then the
records are applied. Classic members cannot join such a group, nor members of this protocol a
classic group with members (Kafka with ``group.consumer.migration.policy=disabled``). Follows
``consumerGroupHeartbeat`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from gateway.base.slices import Slices
from gateway.groups.consumer import records as make
from gateway.groups.consumer.applying import apply
from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribedConsumerGroup,
    RegexesResolved,
    RegexesTaken,
)
from gateway.groups.consumer.faults import (
    HeartbeatRefusedError,
    check_epoch,
    check_instance,
    check_released,
    request_fault,
    unknown_member,
)
from gateway.groups.consumer.group import ConsumerGroup, ResolvedRegex, regex_of
from gateway.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    NOTHING,
    Member,
    MemberState,
)
from gateway.groups.consumer.reconciliation import Reconciliation, UnknownMemberStateError
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.subscriptions import Heartbeat, RegexStatus, Subscriptions
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import Leaver
from gateway.groups.group import Group, State
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

SESSION_TIMER: Final = "consumer session"
REBALANCE_TIMER: Final = "consumer rebalance"


class ConsumerGroups:
    """Handles the consumer groups in ``state``."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._subscriptions = Subscriptions(state.topics, state.settings.consumer_assignors)

    def heartbeat(self, asked: PendingRequest, event: ConsumerHeartbeat) -> Slices[None]:
        """Answer the heartbeat with the member's epoch, and its assignment if that is new."""
        fault = request_fault(event, self._state.settings.consumer_assignors)
        if fault is not None:
            self._refuse(asked, fault.error, fault.message)
            return
        try:
            if event.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
                yield from self._leave(asked, event)
            else:
                yield from self._stay(asked, event)
        except HeartbeatRefusedError as refused:
            self._refuse(asked, *refused.fault)

    def _refuse(self, asked: PendingRequest, error: ErrorCode, message: str | None) -> None:
        self._state.answer(asked, ConsumerHeartbeatResult(error=error, message=message))

    # Members that join or stay.

    def _stay(self, asked: PendingRequest, event: ConsumerHeartbeat) -> Slices[None]:
        is_joining = event.member_epoch == JOINING
        group, kept = self._group(event, is_joining)
        member_id = event.member_id or str(Uuid(self._state.moment.random_bytes))
        if len(kept.members) >= self._state.settings.consumer_max_size and (
            member_id not in kept.members
        ):
            raise HeartbeatRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The consumer group has reached its maximum capacity of "
                f"{self._state.settings.consumer_max_size} members.",
            )
        records: list[ConsumerRecord] = []
        member = self._member(event, kept, member_id, records)
        updated = _updated(member, event)
        beat = Heartbeat(kept, member, updated, records, self._state.moment.wall_ms)
        names_changed = updated.topic_names != member.topic_names
        if updated != member:
            records.append(make.member_subscription(event.group_id, updated))
        status, is_new = self._subscriptions.update_regex(beat)
        configs = self._state.consumer_settings(event.group_id)
        regexes = self._subscriptions.regexes_to_resolve(
            beat, is_new, self._state.settings.consumer_regex_refresh_interval_ms
        )
        version = self._state.topics.version
        bump = names_changed or status is RegexStatus.UPDATED_AND_RESOLVED
        epoch, kind = kept.epoch, kept.subscription_type
        if bump or kept.checked_version != version:
            epoch, kind = yield from self._subscriptions.update_epoch(beat, bump)
        target_epoch, target = yield from self._subscriptions.update_target(
            beat, epoch, kind, configs.assignment_interval_ms
        )
        has_changed = names_changed or status is not RegexStatus.UNCHANGED
        after = self._reconcile(event, beat, has_changed, target_epoch, target)
        if not (yield from apply(self._state, group, kept, records, event.owner)):
            raise HeartbeatRefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The group takes more memory than it may."
            )
        kept.checked_version = version
        group = self._state.groups[event.group_id]
        self._state.schedule(SESSION_TIMER, group, configs.session_timeout_ms, member_id)
        if after != updated:
            self._time_revocation(group, after)
        if regexes:
            kept.is_resolving = True
            self._state.resolve(event.group_id, regexes, event.may_describe)
        result = ConsumerHeartbeatResult(
            error=ErrorCode.NONE,
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=configs.heartbeat_interval_ms,
            assignment=(
                after.assignment
                if is_joining or _is_full(event) or after.assigned != member.assigned
                else None
            ),
        )
        self._state.answer(asked, result, group)

    def _group(self, event: ConsumerHeartbeat, create: bool) -> tuple[Group | None, ConsumerGroup]:
        """The group, or a new one that is not yet known. Raises HeartbeatRefusedError."""
        group = self._state.groups.get(event.group_id)
        if group is not None and group.consumer is not None:
            return group, group.consumer
        if create and (group is None or group.state is State.EMPTY):
            return group, ConsumerGroup(event.group_id)
        raise HeartbeatRefusedError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"{'Group' if event.member_epoch < 0 else 'Consumer group'} {event.group_id} not found."
            if group is None
            else f"Cannot upgrade classic group {event.group_id} to consumer group because online "
            "upgrade is disabled."
            if create
            else f"Group {event.group_id} is not a consumer group.",
        )

    def _member(
        self,
        event: ConsumerHeartbeat,
        group: ConsumerGroup,
        member_id: str,
        records: list[ConsumerRecord],
    ) -> Member:
        """The member that the request is of, which may be new. Raises HeartbeatRefusedError."""
        is_joining = event.member_epoch == JOINING
        if event.instance_id is None:
            member = group.members.get(member_id)
            if member is None and not is_joining:
                raise unknown_member(member_id, group.group_id)
            member = member or Member(member_id)
        elif is_joining:
            known = group.static_member(event.instance_id)
            if known is None:
                return group.members.get(member_id) or Member(member_id)
            check_released(known, member_id, event.instance_id)
            member = replace(known, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
            records += make.member_tombstones(group.group_id, known.member_id)
            records.append(make.member_subscription(group.group_id, member))
            target = group.target_of(known.member_id, event.instance_id)
            records.append(make.target_assignment(group.group_id, member_id, target))
            records.append(make.current_assignment(group.group_id, member))
            return member
        else:
            known = group.static_member(event.instance_id)
            member = check_instance(known, member_id, event.instance_id)
        check_epoch(member, event.member_epoch, event.owned)
        return member

    def _reconcile(
        self,
        event: ConsumerHeartbeat,
        beat: Heartbeat,
        has_subscription_changed: bool,
        target_epoch: int,
        target: Assignment,
    ) -> Member:
        updated = beat.updated
        if not has_subscription_changed and updated.is_reconciled_to(target_epoch):
            return updated
        names = beat.group.subscribed_names(updated)

        def is_subscribed_to(topic_id: Uuid) -> bool:
            topic = self._state.topics.with_id(topic_id)
            return topic is not None and topic.name in names

        try:
            after = Reconciliation(
                member=updated,
                target_epoch=target_epoch,
                target=target,
                is_subscribed_to=is_subscribed_to,
                has_subscription=bool(names),
                has_subscription_changed=has_subscription_changed,
                reported=event.owned,
                partition_epoch=beat.group.partition_epoch,
            ).next_member()
        except UnknownMemberStateError:
            raise HeartbeatRefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its "
                "partitions and rejoin.",
            ) from None
        if after != updated:
            beat.records.append(make.current_assignment(event.group_id, after))
        return after

    # Members that leave.

    def _leave(self, asked: PendingRequest, event: ConsumerHeartbeat) -> Slices[None]:
        group, kept = self._group(event, False)
        assert group is not None
        if event.instance_id is None:
            member = kept.members.get(event.member_id)
            if member is None:
                raise unknown_member(event.member_id, event.group_id)
        else:
            known = kept.static_member(event.instance_id)
            member = check_instance(known, event.member_id, event.instance_id)
        if event.member_epoch == LEAVING_FOR_A_WHILE:
            leaving = replace(
                member,
                epoch=LEAVING_FOR_A_WHILE,
                pending_revocation=NOTHING,
                assigned={one: dict.fromkeys(epochs, 0) for one, epochs in member.assigned.items()},
            )
            records = [make.current_assignment(event.group_id, leaving)]
            yield from apply(self._state, group, kept, records, event.owner)
        else:
            yield from self._remove(group, kept, [member])
        result = ConsumerHeartbeatResult(
            error=ErrorCode.NONE, member_id=event.member_id, member_epoch=event.member_epoch
        )
        self._state.answer(asked, result, group)

    def remove(self, group: Group, leavers: Iterable[Leaver]) -> Slices[list[ErrorCode]]:
        """Remove members for a LeaveGroup, as an operator sends it; one error for each."""
        assert group.consumer is not None
        errors = []
        found: dict[str, Member] = {}
        for leaver in leavers:
            member = _leaving(group.consumer, leaver)
            if isinstance(member, Member):
                found[member.member_id] = member
            errors.append(ErrorCode.NONE if isinstance(member, Member) else member)
        yield from self._remove(group, group.consumer, list(found.values()))
        return errors

    def _remove(
        self, group: Group, kept: ConsumerGroup, members: Collection[Member]
    ) -> Slices[None]:
        """Remove members and start a new epoch (``consumerGroupFenceMembers``)."""
        if not members:
            return
        records = [
            record
            for member in members
            for record in make.member_tombstones(kept.group_id, member.member_id)
        ]
        counts: dict[str, int] = {}
        for member in members:
            regex = regex_of(member)
            if regex is not None:
                counts[regex] = counts.get(regex, 0) + 1
        gone = [regex for regex, count in counts.items() if kept.regexes[regex] == count]
        records += [make.regular_expression_tombstone(kept.group_id, regex) for regex in gone]
        topics = kept.topics_without(members, gone)
        metadata_hash = yield from self._subscriptions.hash_of(topics)
        records.append(make.group_epoch(kept.group_id, kept.epoch + 1, metadata_hash))
        yield from apply(self._state, group, kept, records, "")
        for member in members:
            self._state.cancel(SESSION_TIMER, group, member.member_id)
            self._state.cancel(REBALANCE_TIMER, group, member.member_id)

    # Timers.

    def on_timer(self, kind: str, group: Group, member_id: str) -> Slices[None]:
        """Remove a member whose session is over, or that did not give partitions up in time."""
        kept = group.consumer
        member = None if kept is None else kept.members.get(member_id)
        if kept is None or member is None:
            return
        if kind == REBALANCE_TIMER and not _is_revoking(member):
            return  # it has moved on since, or left for a while
        yield from self._remove(group, kept, [member])

    def start_sessions(self, group: Group) -> None:
        """Set the timers of the members of a group that was loaded."""
        assert group.consumer is not None
        session_ms = self._state.consumer_settings(group.group_id).session_timeout_ms
        for member in group.consumer.members.values():
            self._state.schedule(SESSION_TIMER, group, session_ms, member.member_id)
            self._time_revocation(group, member)

    def _time_revocation(self, group: Group, member: Member) -> None:
        """Give a member its rebalance timeout to give partitions up, if it has to."""
        if _is_revoking(member):
            timeout_ms = member.rebalance_timeout_ms
            self._state.schedule(REBALANCE_TIMER, group, timeout_ms, member.member_id)
        else:
            self._state.cancel(REBALANCE_TIMER, group, member.member_id)

    # Regular expressions.

    def resolved(self, asked: PendingRequest, event: RegexesResolved) -> Slices[None]:
        """Take the topics that the expressions of a group matched. If they could not be found out,
        the next heartbeat tries again.
        """
        group = self._state.groups.get(event.group_id)
        kept = None if group is None else group.consumer
        if group is not None and kept is not None:
            kept.is_resolving = False
            if event.found is not None:
                yield from self._take(group, kept, event.found)
        self._state.answer(asked, RegexesTaken(ErrorCode.NONE))

    def _take(
        self, group: Group, kept: ConsumerGroup, found: Mapping[str, ResolvedRegex]
    ) -> Slices[None]:
        records = []
        topics = dict(kept.topics)
        bump = False
        for regex, new in found.items():
            if not kept.regexes[regex]:
                continue
            if kept.resolved_topics(regex) != new.topics:
                bump = True
                kept.move_regex(topics, regex, new.topics)
            records.append(
                make.regular_expression(kept.group_id, regex, new.topics, new.version, new.wall_ms)
            )
        metadata_hash = yield from self._subscriptions.hash_of(topics)
        if bump or metadata_hash != kept.metadata_hash:
            records.append(make.group_epoch(kept.group_id, kept.epoch + 1, metadata_hash))
        yield from apply(self._state, group, kept, records, group.owner)

    # Descriptions.

    def describe(self, group_id: str) -> tuple[DescribedConsumerGroup, Group | None]:
        """The description of a group, and the group that it is read from."""
        group = self._state.groups.get(group_id)
        kept = None if group is None else group.consumer
        if kept is None:
            message = (
                f"Group {group_id} not found."
                if group is None
                else f"Group {group_id} is not a consumer group."
            )
            error = ErrorCode.GROUP_ID_NOT_FOUND
            return DescribedConsumerGroup(group_id=group_id, error=error, message=message), group
        described = DescribedConsumerGroup(
            group_id=group_id,
            state=kept.state.value,
            epoch=kept.epoch,
            assignment_epoch=kept.assignment_epoch,
            assignor=kept.preferred_assignor() or self._state.settings.consumer_assignors[0],
            members=list(kept.members.values()),
            targets=dict(kept.target),
        )
        return described, group


def _updated(member: Member, event: ConsumerHeartbeat) -> Member:
    """The member with what the request says of it; what it leaves out stays."""
    timeout_ms, names, regex = (
        event.rebalance_timeout_ms, event.topic_names, event.topic_regex,
    )  # fmt: skip
    return replace(
        member,
        instance_id=member.instance_id if event.instance_id is None else event.instance_id,
        rack_id=member.rack_id if event.rack_id is None else event.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if event.assignor is None else event.assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=event.client_id,
        client_host=event.client_host,
        classic=None,
    )


def _is_full(event: ConsumerHeartbeat) -> bool:
    """Whether the request says all of the member, as after an error: it gets all in return."""
    return (
        event.rebalance_timeout_ms != -1
        and (event.topic_names is not None or event.topic_regex is not None)
        and event.owned is not None
    )


def _is_revoking(member: Member) -> bool:
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch > JOINING


def _leaving(group: ConsumerGroup, leaver: Leaver) -> Member | ErrorCode:
    if leaver.instance_id is None:
        return group.members.get(leaver.member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = group.static_member(leaver.instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_fenced = leaver.member_id and leaver.member_id != member.member_id
    return ErrorCode.FENCED_INSTANCE_ID if is_fenced else member
