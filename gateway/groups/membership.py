"""Handles SyncGroup, Heartbeat and LeaveGroup, the requests of members of a generation.

Follows Kafka's ``classicGroupSync``, ``classicGroupHeartbeat`` and ``classicGroupLeave``.
"""

from __future__ import annotations

from collections import Counter

from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import (
    Heartbeat,
    HeartbeatResult,
    LeaveGroup,
    Leaver,
    LeaveResult,
    SyncGroup,
)
from gateway.groups.group import Group, State
from gateway.groups.rebalance import Rebalance, current_assignment
from kwire.protocol import ErrorCode


class Membership:
    """Handles the requests of members of all groups."""

    def __init__(self, state: CoordinatorState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def sync(self, asked: PendingRequest, event: SyncGroup) -> None:
        """Give the member its assignment, at once or when the leader has sent it."""
        group = self._state.groups.get(event.group_id)
        fault = _sync_fault(group, event)
        if fault is not ErrorCode.NONE:
            self._state.answer(asked, event.failed(fault))
            return
        assert group is not None
        member = group.members[event.member_id]
        if group.state is State.STABLE:
            self._rebalance.synced(group, member)
            self._state.answer(asked, current_assignment(group, member), group)
            return
        self._rebalance.park_sync(member, asked)
        self._rebalance.synced(group, member)
        if group.leader == event.member_id:
            self._take_assignments(group, event)

    def _take_assignments(self, group: Group, event: SyncGroup) -> None:
        wanted = {name: data for name, data in event.assignments if name in group.members}
        growth: Counter[str] = Counter()
        for member in group.members.values():
            growth[member.owner] += len(wanted.get(member.member_id, b"")) - len(member.assignment)
        if not self._state.has_room_for_members(group, growth):
            # As Kafka when its record of the group is too large: no member gets this assignment,
            # and the next one may be smaller.
            self._rebalance.refuse_syncs(group, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._rebalance.prepare(group)
        else:
            self._rebalance.assign(group, wanted)

    def heartbeat(self, asked: PendingRequest, event: Heartbeat) -> None:
        """Start the member's session timeout again, and tell the member to join if a rebalance
        waits for it.
        """
        group = self._state.groups.get(event.group_id)
        fault = _heartbeat_fault(group, event)
        if fault in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert group is not None
            self._rebalance.await_heartbeat(group, group.members[event.member_id])
        self._state.answer(asked, HeartbeatResult(error=fault))

    def leave(self, asked: PendingRequest, event: LeaveGroup) -> None:
        """Remove members at once, with one rebalance for all of them."""
        group = self._state.groups.get(event.group_id)
        if group is None:
            errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(event.leavers)
        else:
            errors = [self._remove(group, leaver) for leaver in event.leavers]
        if group is not None and ErrorCode.NONE in errors:
            if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
                self._rebalance.prepare(group)
            else:
                self._rebalance.maybe_complete(group)
        seen = () if group is None else (group,)
        self._state.answer(asked, LeaveResult(error=ErrorCode.NONE, errors=errors), *seen)
        if group is not None:
            self._state.forget_if_blank(group)

    def _remove(self, group: Group, leaver: Leaver) -> ErrorCode:
        member_id = leaver.member_id
        if not member_id:
            if leaver.instance_id is None or leaver.instance_id not in group.static_members:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = group.static_members[leaver.instance_id]
        elif member_id in group.pending_members:
            group.remove_pending(member_id)
            self._state.cancel("heartbeat", group, member_id)
            return ErrorCode.NONE
        fault = group.member_fault(member_id, leaver.instance_id)
        if fault is ErrorCode.NONE:
            self._rebalance.drop(group, group.members[member_id])
        return fault


def _sync_fault(group: Group | None, event: SyncGroup) -> ErrorCode:
    if group is None or group.state is State.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = group.member_fault(event.member_id, event.instance_id)
    if fault is not ErrorCode.NONE:
        return fault
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(event.protocol_type, group.protocol_type) or _differs(
        event.protocol_name, group.protocol_name
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return (
        ErrorCode.REBALANCE_IN_PROGRESS
        if group.state is State.PREPARING_REBALANCE
        else ErrorCode.NONE
    )


def _differs(sent: str | None, known: str | None) -> bool:
    """True if a member expects another protocol than its group has (KIP-559); null matches all."""
    return sent is not None and known is not None and sent != known


def _heartbeat_fault(group: Group | None, event: Heartbeat) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    fault = group.member_fault(event.member_id, event.instance_id)
    if fault is not ErrorCode.NONE:
        return fault
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return (
        ErrorCode.REBALANCE_IN_PROGRESS
        if group.state is State.PREPARING_REBALANCE
        else ErrorCode.NONE
    )
