"""Handles JoinGroup: admits or refuses a member, and decides whether it needs a rebalance.

The phases of a rebalance are in ``rebalance``. Follows Kafka's ``classicGroupJoin``.
"""

from __future__ import annotations

from typing import Final

from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest
from gateway.groups.events import JoinedMember, JoinGroup, JoinResult
from gateway.groups.group import Group, State
from gateway.groups.member import OVERHEAD, Member, size_of
from gateway.groups.rebalance import Rebalance, current_generation
from kwire.protocol import ErrorCode

#: Characters of a client id or instance id that go into a member id. Kafka takes all of them; a
#: string of the protocol ends at 32767 bytes, so that a longer id and its suffix would not fit.
_PREFIX_MAX: Final = 255


class Joining:
    """Handles the JoinGroup requests of all groups."""

    def __init__(self, state: CoordinatorState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def join(self, asked: PendingRequest, event: JoinGroup) -> None:
        """Answer the JoinGroup at once, or park it until the join phase of its group is over. A
        consumer group without members becomes a classic one.
        """
        group = self._state.groups.get(event.group_id)
        if group is not None and group.consumer is not None:
            self._state.become_classic(group)
        if not event.member_id:
            self._join_newcomer(asked, event)
        else:
            self._join_known(asked, event)

    def _join_newcomer(self, asked: PendingRequest, event: JoinGroup) -> None:
        group = self._state.groups.get(event.group_id) or self._state.create(
            event.group_id, event.owner
        )
        if group is None:
            self._refuse(asked, event, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif not self._accepts(group, event.member_id) or not self._has_room(
            group, event, members=1
        ):
            self._refuse(asked, event, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._state.forget_if_blank(group)
        elif not group.supports(event.protocol_type, event.protocols):
            self._refuse(asked, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            self._state.forget_if_blank(group)
        elif event.instance_id is None and event.member_id_required:
            self._require_member_id(asked, event, group)
        elif event.instance_id in group.static_members:
            self._replace_static(asked, event, group)
        else:
            self._add(asked, event, group, self._new_member_id(event))

    def _join_known(self, asked: PendingRequest, event: JoinGroup) -> None:
        group = self._state.groups.get(event.group_id)
        if group is None:
            self._refuse(asked, event, ErrorCode.UNKNOWN_MEMBER_ID)
        elif not self._accepts(group, event.member_id):
            self._refuse_when_full(asked, group, event)
        elif not group.supports(event.protocol_type, event.protocols):
            self._refuse(asked, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif event.member_id in group.pending_members and event.instance_id is None:
            self._join_pending(asked, event, group)
        elif (
            fault := group.member_fault(event.member_id, event.instance_id)
        ) is not ErrorCode.NONE:
            self._refuse(asked, event, fault)
        elif not self._has_room(group, event):
            self._refuse(asked, event, ErrorCode.GROUP_MAX_SIZE_REACHED)
        else:
            self._rejoin(asked, event, group, group.members[event.member_id])

    def _accepts(self, group: Group, member_id: str) -> bool:
        """True if group.max.size admits the member. As in Kafka (``acceptJoiningMember``), the join
        phase counts the members that have joined so far.
        """
        member = group.members.get(member_id)
        match group.state:
            case State.PREPARING_REBALANCE:
                waits = member is not None and member.awaiting_join is not None
                return waits or group.awaiting_join_count < self._state.settings.max_size
            case State.COMPLETING_REBALANCE | State.STABLE:
                return member is not None or len(group.members) < self._state.settings.max_size
            case _:
                return True

    def _has_room(self, group: Group, event: JoinGroup, *, members: int = 0) -> bool:
        """True if limits allow the new subscription of the member in place of the one it has."""
        known = group.members.get(event.member_id)
        if known is None:
            growth = {event.owner: _size(event)}
        else:
            growth = {known.owner: size_of(event.protocols) - size_of(known.protocols)}
        return self._state.has_room_for_members(group, growth, members=members)

    def _refuse_when_full(self, asked: PendingRequest, group: Group, event: JoinGroup) -> None:
        """Refuse a member of a full group, and remove what the group holds of it."""
        self._state.answer(asked, JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=""))
        if event.member_id in group.members:
            self._rebalance.drop(group, group.members[event.member_id])
            self._rebalance.maybe_complete(group)
        elif event.member_id in group.pending_members:
            group.remove_pending(event.member_id)
            self._state.cancel("heartbeat", group, event.member_id)

    def _require_member_id(self, asked: PendingRequest, event: JoinGroup, group: Group) -> None:
        """Give the client a member id and let it join again with it (KIP-394). Without this each
        retry of a client that lost the answer would add a member.
        """
        member_id = self._new_member_id(event)
        group.add_pending(member_id, event.owner)
        self._state.schedule("heartbeat", group, event.session_timeout_ms, member_id)
        self._state.answer(
            asked, JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        )

    def _join_pending(self, asked: PendingRequest, event: JoinGroup, group: Group) -> None:
        if self._has_room(group, event):  # a pending id counts as a member already
            self._add(asked, event, group, event.member_id)
        else:
            self._refuse(asked, event, ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _add(self, asked: PendingRequest, event: JoinGroup, group: Group, member_id: str) -> None:
        member = Member(
            member_id=member_id,
            instance_id=event.instance_id,
            client_id=event.client_id,
            client_host=event.client_host,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            session_timeout_ms=event.session_timeout_ms,
            protocol_type=event.protocol_type,
            protocols=event.protocols,
            owner=event.owner,
            is_new=True,
        )
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.new_member_added = True
        group.add(member)
        self._rebalance.park_join(member, asked)
        # A waiting client sends no heartbeats and may be gone. After this time it gets an answer
        # and has to join again.
        self._state.schedule(
            "heartbeat", group, self._state.settings.new_member_join_timeout_ms, member_id
        )
        self._rebalance.prepare_or_complete(group)

    def _rejoin(
        self, asked: PendingRequest, event: JoinGroup, group: Group, member: Member
    ) -> None:
        same = member.protocols == event.protocols
        match group.state:
            case State.COMPLETING_REBALANCE if same:
                # The member may not have received the answer: send it again.
                self._state.answer(
                    asked, current_generation(group, member, group.members_for_leader()), group
                )
            case State.STABLE if same and group.leader != member.member_id:
                self._state.answer(asked, current_generation(group, member, []), group)
            case _:
                # A leader joins again when it needs a rebalance, for instance because of new
                # partitions.
                self._update(asked, event, group, member)
                self._rebalance.prepare_or_complete(group)

    def _update(
        self, asked: PendingRequest, event: JoinGroup, group: Group, member: Member
    ) -> None:
        group.update(member, event.protocols, event.rebalance_timeout_ms, event.session_timeout_ms)
        self._rebalance.park_join(member, asked)

    def _replace_static(self, asked: PendingRequest, event: JoinGroup, group: Group) -> None:
        """Give a restarted static member a new id, which fences the old one, and keep its
        assignment (KIP-345).
        """
        assert event.instance_id is not None
        member = group.members[group.static_members[event.instance_id]]
        old_leader = group.leader
        self._fence(group, member)
        group.rename_static(member, self._new_member_id(event))
        self._update(asked, event, group, member)
        self._rebalance.await_heartbeat(group, member)
        match group.state:
            case State.STABLE if group.select_protocol() == group.protocol_name:
                group.learn_subscribed_topics()
                self._rebalance.store(group)
                self._rebalance.release_join(
                    member, self._kept(event, group, member, old_leader), group
                )
            case State.STABLE | State.COMPLETING_REBALANCE:
                # The leader may already assign to the old member id, and would miss the new one.
                self._rebalance.prepare(group)
            case _:
                self._rebalance.maybe_complete(group)

    def _fence(self, group: Group, member: Member) -> None:
        """Fence the requests that wait under the old id of a static member (KIP-345)."""
        self._state.cancel("heartbeat", group, member.member_id)
        fenced = JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id)
        self._rebalance.release_join(member, fenced)
        self._rebalance.release_sync(member, ErrorCode.FENCED_INSTANCE_ID)

    def _kept(
        self, event: JoinGroup, group: Group, member: Member, old_leader: str | None
    ) -> JoinResult:
        """The answer to a static member that takes its place again without a rebalance.

        A leader that understands ``skip_assignment`` learns that it leads and must not assign
        (KIP-814). An older one gets the leader's old id, so that it acts as a follower and sends no
        assignment.
        """
        leads = group.leader == member.member_id
        skip = leads and event.can_skip_assignment
        members: list[JoinedMember] = group.members_for_leader() if skip else []
        return JoinResult(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=(group.leader if event.can_skip_assignment else old_leader) or "",
            skip_assignment=skip,
            members=members,
        )

    def _new_member_id(self, event: JoinGroup) -> str:
        prefix = event.client_id if event.instance_id is None else event.instance_id
        return f"{prefix[:_PREFIX_MAX]}-{_uuid_text(self._state.moment.random_bytes)}"

    def _refuse(self, asked: PendingRequest, event: JoinGroup, error: ErrorCode) -> None:
        self._state.answer(asked, event.failed(error))


def _size(event: JoinGroup) -> int:
    return (
        OVERHEAD
        + size_of(event.protocols)
        + len(event.client_id)
        + len(event.member_id)
        + _PREFIX_MAX
    )


def _uuid_text(random_bytes: bytes) -> str:
    """Format 16 bytes as ``java.util.UUID.toString`` does, marked as random (version 4)."""
    marked = bytearray(random_bytes)
    marked[6] = marked[6] & 0x0F | 0x40
    marked[8] = marked[8] & 0x3F | 0x80
    text = marked.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
