"""Runs the phases of a rebalance: members join, a generation starts, members sync.

``prepare`` starts a rebalance; ``maybe_complete`` and the timers end its phases, and remove members
that did not take part. ``joining`` and ``membership`` decide which requests start one. Follows
Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import JoinedMember, JoinResult, SyncResult
from gateway.groups.group import Group, State
from gateway.groups.member import Member
from gateway.groups.records import group_record
from kwire.protocol import ErrorCode

#: Shortest timeout of a phase: a member may send a rebalance timeout of 0, with which timers would
#: fire in a busy loop.
_WAIT_MS_MIN: Final = 1000


class Rebalance:
    """Runs the rebalances of the groups in ``state``."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def prepare_or_complete(self, group: Group) -> None:
        """Start a rebalance after a change of membership, or complete the one under way if all
        members have joined.
        """
        if group.state is State.PREPARING_REBALANCE:
            self.maybe_complete(group)
        else:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Start a rebalance. Members learn of it by their heartbeats and have
        ``rebalance_timeout_ms`` to join.
        """
        if group.state is State.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_sync.clear()
        self._state.cancel("sync", group)
        is_initial = group.state is State.EMPTY
        group.enter(State.PREPARING_REBALANCE, self._state.moment.wall_ms)
        if is_initial:
            self._begin_initial_delay(group)
        elif group.has_all_members_joined:
            self.complete(group)
        else:
            self._state.schedule("join", group, group.rebalance_timeout_ms)

    def maybe_complete(self, group: Group) -> None:
        """End the join phase if all members have joined. The initial delay always passes first."""
        if (
            group.state is State.PREPARING_REBALANCE
            and group.previous_state is not State.EMPTY
            and group.has_all_members_joined
        ):
            self.complete(group)

    def complete(self, group: Group) -> None:
        """End the join phase: remove dynamic members that did not join, and start the generation of
        the others.

        Static members that did not join keep their place, since they may be restarting (KIP-345).
        """
        self._state.cancel("join", group)
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                self._state.cancel("heartbeat", group, member.member_id)
                group.remove(member)
        if group.members and not group.elect_joined_leader():
            # Only absent static members: wait until one joins or their sessions end.
            self._state.schedule("join", group, max(group.rebalance_timeout_ms, _WAIT_MS_MIN))
            return
        group.next_generation(self._state.moment.wall_ms)
        if group.state is State.EMPTY:
            self.store(group)
        else:
            self._answer_joins(group)

    def refuse_syncs(self, group: Group, error: ErrorCode) -> None:
        """Answer all waiting SyncGroup requests with ``error``: there is no assignment."""
        for member in group.members.values():
            group.assign(member, b"")
            self._answer_sync(group, member, SyncResult(error=error))

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, answer the waiting members with it, and make the group
        stable.

        Kafka makes the group stable when the record is written; here the answers wait for that
        instead (``Answer.after``).
        """
        for member in group.members.values():
            group.assign(member, assignments.get(member.member_id, b""))
        group.enter(State.STABLE, self._state.moment.wall_ms)
        self.store(group)
        for member in group.members.values():
            self._answer_sync(group, member, current_assignment(group, member))

    def store(self, group: Group) -> None:
        """Write the group's record in its present state."""
        group.is_stored = True
        self._state.persist(group, [group_record(group)])

    def await_heartbeat(self, group: Group, member: Member) -> None:
        """Start the member's session timeout."""
        self._state.schedule("heartbeat", group, member.session_timeout_ms, member.member_id)

    def drop(self, group: Group, member: Member) -> None:
        """Remove a member and answer its parked requests, so that it joins again if it is alive.

        Kafka leaves a parked SyncGroup of a removed member without an answer; here every request
        gets one.
        """
        self.release_join(member, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=""))
        self.release_sync(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._state.cancel("heartbeat", group, member.member_id)
        group.remove(member)

    def reset(self, group: Group) -> None:
        """Remove every member, whatever state the group is in, and keep its offsets. The members
        join again.
        """
        for member in list(group.members.values()):
            self.drop(group, member)
        for member_id in list(group.pending_members):
            group.remove_pending(member_id)
            self._state.cancel("heartbeat", group, member_id)
        self._state.cancel("join", group)
        self._state.cancel("sync", group)
        group.reset(self._state.moment.wall_ms)
        self.store(group)

    def release_join(self, member: Member, result: JoinResult, *seen: Group) -> None:
        """Answer the JoinGroup of the member that is parked, if there is one."""
        asked, member.awaiting_join = member.awaiting_join, None
        if asked is not None:
            self._state.answer(asked, result, *seen)

    def release_sync(self, member: Member, error: ErrorCode) -> None:
        """Answer the SyncGroup of the member that is parked, if there is one, with ``error``."""
        asked, member.awaiting_sync = member.awaiting_sync, None
        if asked is not None:
            self._state.answer(asked, SyncResult(error=error))

    def park_join(self, member: Member, asked: PendingRequest) -> None:
        """Park the member's JoinGroup until the end of the join phase.

        An earlier one of the same member (its client timed out and sent another) gets a retriable
        error. Kafka forgets it, which would block later answers on the same connection.
        """
        self.release_join(
            member, JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
        member.awaiting_join = asked

    def park_sync(self, member: Member, asked: PendingRequest) -> None:
        """Park the member's SyncGroup until the leader sends its own."""
        self.release_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = asked

    def synced(self, group: Group, member: Member) -> None:
        """Note the SyncGroup of a member; the last one ends the sync phase."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._state.cancel("sync", group)

    # Timers.

    def on_join_timer(self, group: Group) -> None:
        """End the join phase after the initial delay or the rebalance timeout."""
        if group.state is not State.PREPARING_REBALANCE:
            return
        if (
            group.previous_state is State.EMPTY
            and group.new_member_added
            and group.initial_delay_left_ms > 0
        ):
            # A member joined during the delay: wait again, up to the rebalance timeout in all.
            self._extend_initial_delay(group)
        else:
            self.complete(group)

    def on_sync_timer(self, group: Group) -> None:
        """Remove members that joined and did not sync, or whose leader did not assign
        (KAFKA-13288).
        """
        if group.pending_sync and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            for member_id in sorted(group.pending_sync):
                self.drop(group, group.members[member_id])
            self.prepare(group)

    def on_heartbeat_timer(self, group: Group, member_id: str) -> None:
        """End the session of a member, or of a pending member id that no client used."""
        if member_id in group.pending_members:
            group.remove_pending(member_id)
            self.maybe_complete(group)
            self._state.forget_if_blank(group)
            return
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return  # the member waits for an answer, which starts its session again
        self.drop(group, member)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group)
        elif group.has_all_members_joined:
            self.complete(group)

    # How it is done.

    def _begin_initial_delay(self, group: Group) -> None:
        delay_ms = self._state.settings.initial_rebalance_delay_ms
        if delay_ms == 0:
            # A timer of 0 ms has the same effect, one round of the event loop later.
            self.complete(group)
            return
        group.new_member_added = False
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        self._state.schedule("join", group, delay_ms)

    def _extend_initial_delay(self, group: Group) -> None:
        delay_ms = min(self._state.settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
        group.new_member_added = False
        group.initial_delay_left_ms -= delay_ms
        self._state.schedule("join", group, delay_ms)

    def _answer_joins(self, group: Group) -> None:
        members = group.members_for_leader()
        for member in group.members.values():
            self.release_join(member, current_generation(group, member, members), group)
            self.await_heartbeat(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)
        self._state.schedule("sync", group, group.rebalance_timeout_ms)

    def _answer_sync(self, group: Group, member: Member, result: SyncResult) -> None:
        asked, member.awaiting_sync = member.awaiting_sync, None
        if asked is not None:
            self._state.answer(asked, result, group)
            # The member's session timer may have fired while the member was excused.
            self.await_heartbeat(group, member)


def current_generation(
    group: Group, member: Member, members_for_leader: list[JoinedMember]
) -> JoinResult:
    """The JoinGroup result of a member in this generation; the leader's lists all members."""
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        members=members_for_leader if group.leader == member.member_id else (),
    )


def current_assignment(group: Group, member: Member) -> SyncResult:
    return SyncResult(
        error=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
