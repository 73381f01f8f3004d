"""Handles ConsumerGroupHeartbeat: members of consumer groups join, take over their assignments,
and leave.

``changes`` applies what they ask for. The first heartbeat of a member in a classic group converts
the group (``conversion``). Follows ``consumerGroupHeartbeat`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gateway.base.slices import Slices
from gateway.groups.consumer import records as make
from gateway.groups.consumer.applying import Converted, apply
from gateway.groups.consumer.changes import Changed, Changes, replace_static
from gateway.groups.consumer.events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribedConsumerGroup,
    RegexesResolved,
    RegexesTaken,
)
from gateway.groups.consumer.faults import (
    RefusedError,
    check_epoch,
    check_instance,
    check_released,
    check_room,
    request_fault,
    unknown_member,
)
from gateway.groups.consumer.group import ConsumerGroup, ResolvedRegex
from gateway.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_A_WHILE,
    NOTHING,
    Member,
)
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.subscriptions import Heartbeat, RegexStatus
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import Leaver
from gateway.groups.group import Group, State
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid


class ConsumerGroups:
    """Handles the consumer groups in ``state``."""

    def __init__(self, state: CoordinatorState, changes: Changes) -> None:
        self._state = state
        self._changes = changes
        self._subscriptions = changes.subscriptions

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
        except RefusedError as refused:
            self._refuse(asked, *refused.fault)

    def _refuse(self, asked: PendingRequest, error: ErrorCode, message: str | None) -> None:
        self._state.answer(asked, ConsumerHeartbeatResult(error=error, message=message))

    # Members that join or stay.

    def _stay(self, asked: PendingRequest, event: ConsumerHeartbeat) -> Slices[None]:
        is_joining = event.member_epoch == JOINING
        group, kept, converted = yield from self._group(event, is_joining)
        member_id = event.member_id or str(Uuid(self._state.moment.random_bytes))
        check_room(kept.members, member_id, self._state.settings.consumer_max_size)
        records: list[ConsumerRecord] = []
        member = self._member(event, kept, member_id, records)
        beat = Heartbeat(kept, member, _updated(member, event), records, self._state.moment.wall_ms)
        names_changed, status, is_new = self._changes.note_subscription(beat)
        regexes = self._subscriptions.regexes_to_resolve(
            beat, is_new, self._state.settings.consumer_regex_refresh_interval_ms
        )
        changed = Changed(
            bump=names_changed or status is RegexStatus.UPDATED_AND_RESOLVED,
            subscription=names_changed or status is not RegexStatus.UNCHANGED,
        )
        before = [] if converted is None or group is None else list(group.members.values())
        after = yield from self._changes.advance(
            group, beat, changed, event.owned, event.owner, converted
        )
        group = self._state.groups[event.group_id]
        if converted is not None:
            self._state.report_conversion(group)
            yield from self._changes.conversion.dismiss(group, before)
            yield from self._changes.start_sessions(group)
        self._changes.await_heartbeat(group, after)
        if regexes:
            kept.is_resolving = True
            self._state.resolve(event.group_id, regexes, event.may_describe)
        configs = self._state.consumer_settings(event.group_id)
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

    def _group(
        self, event: ConsumerHeartbeat, create: bool
    ) -> Slices[tuple[Group | None, ConsumerGroup, Converted | None]]:
        """The group, or a new one that is not yet known; a classic group with members is converted.
        Raises RefusedError.
        """
        group = self._state.groups.get(event.group_id)
        if group is not None and group.consumer is not None:
            return group, group.consumer, None
        if create and (group is None or group.state is State.EMPTY):
            return group, ConsumerGroup(event.group_id), None
        if create and group is not None:
            kept, converted = yield from self._changes.conversion.upgrade(group)
            return group, kept, converted
        raise self._no_group(event, group)

    def _no_group(self, event: ConsumerHeartbeat, group: Group | None) -> RefusedError:
        return RefusedError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"{'Group' if event.member_epoch < 0 else 'Consumer group'} {event.group_id} not found."
            if group is None
            else f"Group {event.group_id} is not a consumer group.",
        )

    def _member(
        self,
        event: ConsumerHeartbeat,
        group: ConsumerGroup,
        member_id: str,
        records: list[ConsumerRecord],
    ) -> Member:
        """The member that the request is of, which may be new. Raises RefusedError."""
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
            if known.classic is None:
                check_released(known, member_id, event.instance_id)
            return replace_static(group, known, member_id, records)
        else:
            known = group.static_member(event.instance_id)
            member = check_instance(known, member_id, event.instance_id)
        check_epoch(member, event.member_epoch, event.owned)
        return member

    # Members that leave.

    def _leave(self, asked: PendingRequest, event: ConsumerHeartbeat) -> Slices[None]:
        group = self._state.groups.get(event.group_id)
        if group is None or group.consumer is None:
            raise self._no_group(event, group)
        kept = group.consumer
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
            yield from self._changes.remove(group, kept, [member])
        result = ConsumerHeartbeatResult(
            error=ErrorCode.NONE, member_id=event.member_id, member_epoch=event.member_epoch
        )
        self._state.answer(asked, result, group)

    def remove(self, group: Group, leavers: Iterable[Leaver]) -> Slices[list[ErrorCode]]:
        """Remove members for a LeaveGroup, as classic members and operators send it; one error for
        each.
        """
        assert group.consumer is not None
        errors = []
        found: dict[str, Member] = {}
        for leaver in leavers:
            member = _leaving(group.consumer, leaver)
            if isinstance(member, Member):
                found[member.member_id] = member
            errors.append(ErrorCode.NONE if isinstance(member, Member) else member)
        yield from self._changes.remove(group, group.consumer, list(found.values()))
        return errors

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


def _leaving(group: ConsumerGroup, leaver: Leaver) -> Member | ErrorCode:
    if leaver.instance_id is None:
        return group.members.get(leaver.member_id) or ErrorCode.UNKNOWN_MEMBER_ID
    member = group.static_member(leaver.instance_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_fenced = leaver.member_id and leaver.member_id != member.member_id
    return ErrorCode.FENCED_INSTANCE_ID if is_fenced else member
