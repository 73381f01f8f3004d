"""Dispatches events and timers to the parts of the group coordinator, and contains their
exceptions.

The driver calls ``load``, ``handle``, ``next_deadline``, ``on_timer`` and ``unload``. Follows
Kafka's ``GroupCoordinatorShard``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never

from gateway.base.slices import Slices, pieces, run
from gateway.groups.consumer.applying import HalfAppliedError
from gateway.groups.consumer.changes import MEMBER_TIMERS, Changes
from gateway.groups.consumer.classic_members import ClassicMembers
from gateway.groups.consumer.events import (
    ConsumerHeartbeat,
    DescribeConsumerGroups,
    DescribeConsumerGroupsResult,
    RegexesResolved,
)
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.heartbeats import ConsumerGroups
from gateway.groups.consumer.topics import NoTopics, Topics
from gateway.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import Effect, EventTime, PendingRequest, Record
from gateway.groups.events import (
    CompleteTransaction,
    DeleteGroups,
    DeleteGroupsResult,
    DescribedGroup,
    DescribedMember,
    DescribeGroups,
    DescribeGroupsResult,
    Event,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeaveResult,
    ListedGroup,
    ListGroups,
    ListGroupsResult,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    TxnOffsetCommit,
)
from gateway.groups.group import Group, State
from gateway.groups.joining import Joining
from gateway.groups.membership import Membership
from gateway.groups.offsets import Offsets
from gateway.groups.pending_offsets import PendingRecord
from gateway.groups.rebalance import Rebalance
from gateway.groups.records import restore_groups
from gateway.groups.request_fault import request_fault
from gateway.groups.settings import ConsumerSettings, Settings
from gateway.groups.timers import Timer
from gateway.groups.transactional_offsets import TransactionalOffsets
from gateway.groups.usage import Usage
from kwire.protocol import ErrorCode

#: Groups that are listed between two slices: less than 1 ms.
GROUPS_PER_SLICE: Final = 500


class GroupCoordinator:
    """Coordinates the groups of this server, classic and of KIP-848. Each call returns its effects
    in the order in which the driver must carry them out.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        topics: Topics | None = None,
        group_configs: Callable[[str, ConsumerSettings], ConsumerSettings] = lambda _, same: same,
    ) -> None:
        self._state = CoordinatorState(settings, topics or NoTopics(), group_configs)
        self._rebalance = Rebalance(self._state)
        self._joining = Joining(self._state, self._rebalance)
        self._membership = Membership(self._state, self._rebalance)
        self._offsets = Offsets(self._state, self._rebalance)
        self._transactional = TransactionalOffsets(self._state)
        self._changes = Changes(self._state, self._rebalance)
        self._consumers = ConsumerGroups(self._state, self._changes)
        self._classic_members = ClassicMembers(self._state, self._changes)

    @property
    def groups(self) -> dict[str, Group]:
        """The groups by id, read-only."""
        return self._state.groups

    @property
    def usage(self) -> Usage:
        """The memory that groups hold, read-only."""
        return self._state.usage

    def load(
        self,
        records: Iterable[tuple[bytes, bytes]],
        moment: EventTime,
        owners: Mapping[bytes, str] = MappingProxyType({}),
        pending: Iterable[PendingRecord] = (),
    ) -> list[Effect]:
        """Restore the groups from the newest value of each key in the log. Member sessions start
        now.

        ``owners``: key of a record -> the owner that is charged for it. ``pending``: records of
        transactions without a marker, in their order. Raises DecodeError for a record that cannot
        be read.
        """
        self._state.moment = moment
        self._state.groups.update(
            restore_groups(list(records), self._state.usage, moment.wall_ms, owners)
        )
        self._transactional.restore(pending)
        for group in self._state.groups.values():
            if group.consumer is not None:
                run(self._changes.start_sessions(group))
            for member in group.members.values():
                self._rebalance.await_heartbeat(group, member)
            # group.max.size was lowered since
            if len(group.members) > self._state.settings.max_size:
                self._rebalance.prepare(group)
        self._offsets.schedule_expiry()
        return self._state.drain_effects()

    def unload(self) -> list[Effect]:
        """Answer all waiting members with NOT_COORDINATOR, so that they look for the coordinator
        again. The driver calls this when the state is no longer reliable.
        """
        for group in self._state.groups.values():
            for member in group.members.values():
                for asked in (member.awaiting_join, member.awaiting_sync):
                    if asked is not None:
                        self._state.answer(asked, asked.event.failed(ErrorCode.NOT_COORDINATOR))
                member.awaiting_join = member.awaiting_sync = None
        return self._state.drain_effects()

    def handle(self, event: Event, token: Any, moment: EventTime) -> list[Effect]:
        """Carry out one request; ``token`` comes back in its Answer, now or from a later call.

        An exception fails only this request (``Failure``). ``handle`` raises only when the group
        cannot be reset after that.
        """
        return run(self.handle_in_slices(event, token, moment))

    def handle_in_slices(self, event: Event, token: Any, moment: EventTime) -> Slices[list[Effect]]:
        """As :meth:`handle`, in slices: until they are complete, nothing else may be called but
        :meth:`unload`.
        """
        self._state.moment = moment
        asked = PendingRequest(event, token)
        try:
            work = self._dispatch(asked, event)
            if work is not None:
                yield from work
        except HalfAppliedError:
            raise
        except Exception as error:
            # Only these events change members one at a time. Every other event applies all of its
            # changes or none.
            group_id = (
                event.group_id if isinstance(event, JoinGroup | SyncGroup | LeaveGroup) else ""
            )
            self._contain(error, type(event).__name__, group_id)
            if not self._state.is_answered(asked):
                self._state.answer(asked, event.failed(ErrorCode.UNKNOWN_SERVER_ERROR))
        return self._state.drain_effects()

    def next_deadline(self) -> float | None:
        """The time at which ``on_timer`` is due (seconds on ``EventTime.now``'s clock), or None."""
        return self._state.timers.next_deadline()

    def on_timer(self, moment: EventTime) -> list[Effect]:
        """Fire the timers that are due at ``moment``."""
        return run(self.on_timer_in_slices(moment))

    def on_timer_in_slices(self, moment: EventTime) -> Slices[list[Effect]]:
        """As :meth:`on_timer`, in slices: thousands of members may be overdue at once."""
        self._state.moment = moment
        # A timer that is set now with a timeout of 0 ms fires in the next call, so that this one
        # ends.
        for _ in range(len(self._state.timers)):
            timer = self._state.timers.pop_due(moment.now)
            if timer is None:
                break
            try:
                work = self._fire(timer)
                if work is not None:
                    yield from work
            except HalfAppliedError:
                raise
            except Exception as error:
                self._contain(error, f"{timer.kind} timer", timer.group_id)
            yield
        return self._state.drain_effects()

    def _fire(self, timer: Timer) -> Slices[None] | None:
        group = self._state.groups.get(timer.group_id)
        if timer.kind == "expiry":
            self._offsets.on_expiry_timer()
        elif group is not None and timer.kind == "heartbeat":
            self._rebalance.on_heartbeat_timer(group, timer.member_id)
        elif group is not None and timer.kind == "join":
            self._rebalance.on_join_timer(group)
        elif group is not None and timer.kind == "sync":
            self._rebalance.on_sync_timer(group)
        elif group is not None and timer.kind in MEMBER_TIMERS:
            return self._changes.on_timer(timer.kind, group, timer.member_id)
        return None

    def _contain(self, error: Exception, what: str, group_id: str) -> None:
        """Report an exception and reset its group, whose members may be half changed."""
        self._state.report_failure(what, group_id, error)
        group = self._state.groups.get(group_id)
        if group is not None and group.consumer is None:
            self._rebalance.reset(group)

    def _dispatch(self, asked: PendingRequest, event: Event) -> Slices[None] | None:
        """Carry out a short event, and return the work of one that may be long."""
        fault = request_fault(event, self._state.settings)
        if fault is not ErrorCode.NONE:
            self._state.answer(asked, event.failed(fault))
            return None
        match event:
            case Heartbeat():
                self._heartbeat(asked, event)
            case OffsetCommit():
                return self._offsets.commit(asked, event)
            case TxnOffsetCommit():
                return self._transactional.commit(asked, event)
            case CompleteTransaction():
                return self._transactional.complete(asked, event)
            case OffsetFetch():
                return self._offsets.fetch(asked, event)
            case JoinGroup():
                return self._join(asked, event)
            case SyncGroup():
                return self._sync(asked, event)
            case LeaveGroup():
                return self._leave(asked, event)
            case ConsumerHeartbeat():
                return self._consumers.heartbeat(asked, event)
            case RegexesResolved():
                return self._consumers.resolved(asked, event)
            case DescribeConsumerGroups():
                return self._describe_consumers(asked, event)
            case OffsetDelete():
                return self._offsets.delete(asked, event)
            case ListGroups():
                return self._list(asked, event)
            case DescribeGroups():
                return self._describe(asked, event)
            case DeleteGroups():
                return self._delete(asked, event)
            case _:
                assert_never(event)
        return None

    def _with_members(self, group_id: str) -> tuple[Group, ConsumerGroup] | None:
        """The group, if it is a consumer group with members: its classic members are there, too."""
        group = self._state.groups.get(group_id)
        if group is None or group.consumer is None or not group.consumer.members:
            return None
        return group, group.consumer

    def _join(self, asked: PendingRequest, event: JoinGroup) -> Slices[None] | None:
        found = self._with_members(event.group_id)
        if found is not None:
            return self._classic_members.join(asked, event, *found)
        self._joining.join(asked, event)
        return None

    def _sync(self, asked: PendingRequest, event: SyncGroup) -> Slices[None] | None:
        found = self._with_members(event.group_id)
        if found is not None:
            return self._classic_members.sync(asked, event, *found)
        self._membership.sync(asked, event)
        return None

    def _heartbeat(self, asked: PendingRequest, event: Heartbeat) -> None:
        found = self._with_members(event.group_id)
        if found is not None:
            self._classic_members.heartbeat(asked, event, *found)
        else:
            self._membership.heartbeat(asked, event)

    def _leave(self, asked: PendingRequest, event: LeaveGroup) -> Slices[None]:
        group = self._state.groups.get(event.group_id)
        if group is None or group.consumer is None:
            self._membership.leave(asked, event)
            return
        errors = yield from self._consumers.remove(group, event.leavers)
        self._state.answer(asked, LeaveResult(error=ErrorCode.NONE, errors=errors), group)

    def _list(self, asked: PendingRequest, event: ListGroups) -> Slices[None]:
        listed: list[ListedGroup] = []
        persisted = 0
        for some in pieces(self._state.groups.values(), GROUPS_PER_SLICE):
            listed += [
                _listed(group)
                for group in some
                if (not event.states or group.state_name.lower() in event.states)
                and (not event.types or group.type in event.types)
            ]
            persisted = max(persisted, *(group.persisted for group in some))
            yield
        result = ListGroupsResult(error=ErrorCode.NONE, groups=listed)
        self._state.answer_after(asked, result, persisted)

    def _describe(self, asked: PendingRequest, event: DescribeGroups) -> Slices[None]:
        described = []
        seen = []
        for group_id in event.group_ids:
            group = self._state.groups.get(group_id)
            if group is None or group.consumer is not None:
                dead = DescribedGroup(
                    group_id=group_id,
                    error=ErrorCode.GROUP_ID_NOT_FOUND,
                    message=f"Group {group_id} not found."
                    if group is None
                    else f"Group {group_id} is not a classic group.",
                    state=State.DEAD.value,
                )
                described.append(dead)
            else:
                seen.append(group)
                described.append(_description(group))
            yield
        self._state.answer(asked, DescribeGroupsResult(groups=described), *seen)

    def _describe_consumers(
        self, asked: PendingRequest, event: DescribeConsumerGroups
    ) -> Slices[None]:
        described = []
        seen = []
        for group_id in event.group_ids:
            description, group = self._consumers.describe(group_id)
            described.append(description)
            if group is not None:
                seen.append(group)
            yield
        self._state.answer(asked, DescribeConsumerGroupsResult(groups=described), *seen)

    def _delete(self, asked: PendingRequest, event: DeleteGroups) -> Slices[None]:
        errors = []
        deleted = []
        for group_id in event.group_ids:
            group = self._state.groups.get(group_id)
            if group is None:
                errors.append(ErrorCode.GROUP_ID_NOT_FOUND)
            elif not group.is_empty:
                errors.append(ErrorCode.NON_EMPTY_GROUP)
            else:
                records: list[Record] = []
                yield from self._offsets.delete_all(group, records)
                self._state.forget(group, records)
                self._state.persist(group, records)
                deleted.append(group)
                errors.append(ErrorCode.NONE)
            yield
        self._state.answer(asked, DeleteGroupsResult(errors=errors), *deleted)


def _listed(group: Group) -> ListedGroup:
    protocol_type = group.protocol_type or ""
    if group.consumer is not None:
        protocol_type = CONSUMER_PROTOCOL_TYPE
    return ListedGroup(group.group_id, protocol_type, group.state_name, group.type)


def _description(group: Group) -> DescribedGroup:
    """Describe the group. Only a stable group has subscriptions: before that its protocol is
    undecided.
    """
    name = group.protocol_name if group.state is State.STABLE else None
    members = [
        DescribedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            metadata=member.metadata(name) if name is not None else b"",
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=name or "",
        members=members,
    )
