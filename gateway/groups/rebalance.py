"""Runs the phases of a rebalance: members join, a generation starts, members sync.

``prepare`` starts a rebalance; ``maybe_complete`` and the timers end its phases, and remove members
that did not take part. ``joining`` and ``membership`` decide which requests start one. Follows
Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import Asked
from gateway.groups.errors import Error
from gateway.groups.events import JoinedMember, JoinResult, SyncResult
from gateway.groups.group import Group, State
from gateway.groups.member import Member
from gateway.groups.records import group_record

#: Shortest timeout of a phase: with a rebalance timeout of 0, which a member may send, the timers
#: would never pause.
_WAIT_MS_MIN: Final = 1000


class Rebalance:
    """Works on the groups of ``state``; Kafka's ``GroupMetadataManager`` between JoinGroup and
    SyncGroup.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def prepare_or_complete(self, group: Group) -> None:
        """Something changed that the next generation must know: begin a rebalance, or see whether
        the one under way is done.
        """
        if group.state is State.PREPARING_REBALANCE:
            self.maybe_complete(group)
        else:
            self.prepare(group)

    def prepare(self, group: Group) -> None:
        """Begin a rebalance: members learn of it by their heartbeats and have
        ``rebalance_timeout_ms`` to join.
        """
        if group.state is State.COMPLETING_REBALANCE:
            self.refuse_syncs(group, Error.REBALANCE_IN_PROGRESS)
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
        """End the join phase if all members joined; the initial delay always passes first."""
        if (
            group.state is State.PREPARING_REBALANCE
            and group.previous_state is not State.EMPTY
            and group.has_all_members_joined
        ):
            self.complete(group)

    def complete(self, group: Group) -> None:
        """End the join phase: drop dynamic members that did not come, and make the next generation
        of those who did.

        Static members that did not come keep their place: they are away for a restart (KIP-345).
        """
        self._state.cancel("join", group)
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                self._state.cancel("heartbeat", group, member.member_id)
                group.remove(member)
        if group.members and not group.elect_joined_leader():
            # Only absent static members: wait on until one comes or their sessions end.
            self._state.schedule("join", group, max(group.rebalance_timeout_ms, _WAIT_MS_MIN))
            return
        group.next_generation(self._state.moment.wall_ms)
        if group.state is State.EMPTY:
            self.store(group)
        else:
            self._answer_joins(group)

    def refuse_syncs(self, group: Group, error: Error) -> None:
        """Answer all waiting SyncGroup requests with ``error``: there is no assignment."""
        for member in group.members.values():
            group.assign(member, b"")
            self._answer_sync(group, member, SyncResult(error=error))

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader's assignment is here: write it, give it to those who wait, and the group is
        stable.

        Kafka makes it stable when the record is written; here the answers wait for that instead
        (``Answer.after``).
        """
        for member in group.members.values():
            group.assign(member, assignments.get(member.member_id, b""))
        group.enter(State.STABLE, self._state.moment.wall_ms)
        self.store(group)
        for member in group.members.values():
            self._answer_sync(group, member, current_assignment(group, member))

    def store(self, group: Group) -> None:
        """Write the group as it is."""
        group.is_stored = True
        self._state.persist(group, [group_record(group)])

    def await_heartbeat(self, group: Group, member: Member) -> None:
        """From now on the member has its session timeout to be heard of."""
        self._state.schedule("heartbeat", group, member.session_timeout_ms, member.member_id)

    def drop(self, group: Group, member: Member) -> None:
        """Remove a member; requests of it that are parked are answered, so that it joins anew if it
        is still there.

        Kafka leaves a parked SyncGroup of a removed member without an answer; here every request
        gets one.
        """
        self.release_join(member, JoinResult(error=Error.UNKNOWN_MEMBER_ID, member_id=""))
        self.release_sync(member, Error.UNKNOWN_MEMBER_ID)
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

    def release_sync(self, member: Member, error: Error) -> None:
        """Answer the SyncGroup of the member that is parked, if there is one, with ``error``."""
        asked, member.awaiting_sync = member.awaiting_sync, None
        if asked is not None:
            self._state.answer(asked, SyncResult(error=error))

    def park_join(self, member: Member, asked: Asked) -> None:
        """The member's JoinGroup waits for the end of the join phase.

        An earlier one of the same member (its client gave up waiting and asked again) gets a
        retriable error: Kafka forgets it, which would block the answers behind it if it came on the
        same connection.
        """
        self.release_join(
            member, JoinResult(error=Error.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
        member.awaiting_join = asked

    def park_sync(self, member: Member, asked: Asked) -> None:
        """As ``park_join``: the SyncGroup waits for the leader's."""
        self.release_sync(member, Error.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = asked

    def synced(self, group: Group, member: Member) -> None:
        """Note the SyncGroup of a member; the last one ends the sync phase."""
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._state.cancel("sync", group)

    # Timers.

    def on_join_timer(self, group: Group) -> None:
        """The initial delay or the rebalance timeout is over."""
        if group.state is not State.PREPARING_REBALANCE:
            return
        if (
            group.previous_state is State.EMPTY
            and group.new_member_added
            and group.initial_delay_left_ms > 0
        ):
            # A member joined during the delay: wait once more, up to the rebalance timeout in all.
            self._extend_initial_delay(group)
        else:
            self.complete(group)

    def on_sync_timer(self, group: Group) -> None:
        """Members that joined and never synced hold the others up (or the leader never assigned):
        they go (KAFKA-13288).
        """
        if group.pending_sync and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            for member_id in sorted(group.pending_sync):
                self.drop(group, group.members[member_id])
            self.prepare(group)

    def on_heartbeat_timer(self, group: Group, member_id: str) -> None:
        """A session timeout is over, or that of an id that was promised and never used."""
        if member_id in group.pending_members:
            group.remove_pending(member_id)
            self.maybe_complete(group)
            self._state.forget_if_blank(group)
            return
        member = group.members.get(member_id)
        if member is None or member.is_excused:
            return  # it waits for our answer; the answer starts its session again
        self.drop(group, member)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare(group)
        elif group.has_all_members_joined:
            self.complete(group)

    # How it is done.

    def _begin_initial_delay(self, group: Group) -> None:
        delay_ms = self._state.settings.initial_rebalance_delay_ms
        if delay_ms == 0:
            # A timer of 0 ms would be the same with a round of the event loop in between.
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
            # Its session timer may have passed, excused, while it waited.
            self.await_heartbeat(group, member)


def current_generation(
    group: Group, member: Member, members_for_leader: list[JoinedMember]
) -> JoinResult:
    """The JoinGroup result of a member; that of the leader lists all members."""
    return JoinResult(
        error=Error.NONE,
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        members=members_for_leader if group.leader == member.member_id else (),
    )


def current_assignment(group: Group, member: Member) -> SyncResult:
    return SyncResult(
        error=Error.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
