"""Holds one group: of a classic one members, state, protocol votes and leader; its committed
offsets, whatever its protocol.

It sends no responses and sets no timers: ``rebalance``, ``joining`` and ``membership`` do. Follows
Kafka's ``ClassicGroup``.
"""

from __future__ import annotations

import enum
from collections import Counter
from typing import Final

from gateway.base.slices import Slices
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.ledger import Ledger
from gateway.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from gateway.groups.events import Committed, JoinedMember, Protocol, TopicPartition
from gateway.groups.member import OVERHEAD, Member
from gateway.groups.usage import MemoryUse, Usage
from kwire.protocol import ErrorCode

#: Memory of a committed offset besides names and metadata, in the group and in the store, bytes
#: (measured: 470).
_OFFSET_OVERHEAD: Final = 500


class State(enum.Enum):
    """``ClassicGroupState``. A dead group is one that does not exist."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: The states from which a group may enter each state.
ENTERED_FROM: Final = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
}


class Group:
    """A group with its committed offsets: a classic one, or that in ``consumer``. All groups share
    ``usage``.

    Members are kept in the order in which they joined; where Kafka takes any member, this takes the
    first. ``owner`` is charged for the group itself. Follows ``ClassicGroup``.
    """

    def __init__(self, group_id: str, usage: Usage, wall_ms: int, owner: str = "") -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.previous_state = State.DEAD
        self.state_since_ms = wall_ms
        self.generation = 0
        self.protocol_type: str | None = (
            None  # None: no member ever joined, a "simple" group that only commits offsets
        )
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id -> member id
        self.pending_members: set[str] = set()  # ids given with MEMBER_ID_REQUIRED, not used yet
        self.pending_sync: set[str] = set()  # members whose SyncGroup of this generation is missing
        self.new_member_added = False  # a member joined during the initial delay: wait for more
        self.initial_delay_left_ms = 0
        self.consumer: ConsumerGroup | None = None  # a group of KIP-848; then all above is empty
        self.ledger = Ledger()  # memory of ``consumer``
        self.offsets: dict[TopicPartition, Committed] = {}
        self.pending_offsets = 0  # number of those of transactions without a marker
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.is_stored = False  # has a group record on disk
        self.persisted = 0  # number of the newest Persist of this group
        self.owner = owner
        self.held = MemoryUse()
        self._pending_owners: dict[str, str] = {}
        self._supported: Counter[str] = Counter()  # protocol name -> members that support it
        self._usage = usage
        self._charge(owner, groups=1, member_bytes=group_size(group_id))

    # Queries.

    @property
    def is_blank(self) -> bool:
        """True without members and committed offsets: the group may be removed."""
        return self.is_empty and not (self.pending_members or self.offsets or self.pending_offsets)

    @property
    def is_empty(self) -> bool:
        """True without members."""
        if self.consumer is not None:
            return not self.consumer.members
        return self.state is State.EMPTY

    @property
    def type(self) -> str:
        """``Group.GroupType``"""
        return "classic" if self.consumer is None else "consumer"

    @property
    def state_name(self) -> str:
        """The state as Kafka names it."""
        return self.state.value if self.consumer is None else self.consumer.state.value

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def awaiting_join_count(self) -> int:
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def has_all_members_joined(self) -> bool:
        """True if each member, and each client that was given a member id, has sent JoinGroup for
        the next generation.
        """
        return not self.pending_members and all(
            member.awaiting_join for member in self.members.values()
        )

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member subscribes to ``topic``. An unreadable subscription counts as all
        topics.
        """
        if self.consumer is not None:
            return topic in self.consumer.topics
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """True if the group accepts a member with these protocols."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self._supported[protocol.name] == len(self.members) for protocol in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that every member supports; the earliest
        vote breaks a tie.
        """
        candidates = {name for name, count in self._supported.items() if count == len(self.members)}
        assert candidates, f"group {self.group_id!r}: its members have no protocol in common"
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return max(votes, key=lambda name: votes[name])

    def members_for_leader(self) -> list[JoinedMember]:
        assert self.protocol_name is not None
        name = self.protocol_name
        return [
            JoinedMember(m.member_id, m.instance_id, m.metadata(name))
            for m in self.members.values()
        ]

    def member_fault(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error of a request by this member id and instance id (``validateMember``). The newest
        member id of a static member fences the earlier ones.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def commit_fault(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """The error of an offset commit (``validateOffsetCommit``). Without a generation it is
        allowed only while the group is empty.
        """
        if self.consumer is not None:
            return self.consumer.commit_fault(member_id, generation)
        if generation < 0 and self.state is State.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        fault = self.member_fault(member_id, instance_id)
        if fault is not ErrorCode.NONE:
            return fault
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        # The member knows the newest generation but not its assignment yet: its commit is of the
        # one before.
        return (
            ErrorCode.REBALANCE_IN_PROGRESS
            if self.state is State.COMPLETING_REBALANCE
            else ErrorCode.NONE
        )

    # Changes.

    def enter(self, state: State, wall_ms: int) -> None:
        assert self.state in ENTERED_FROM[state], (
            f"group {self.group_id!r}: from {self.state.value} to {state.value}"
        )
        self.previous_state, self.state, self.state_since_ms = self.state, state, wall_ms

    def reset(self, wall_ms: int) -> None:
        """Empty the group after a failure, in a generation that no member knows."""
        assert not self.members
        self.previous_state, self.state, self.state_since_ms = self.state, State.EMPTY, wall_ms
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.protocol_name = None
        self.pending_sync.clear()
        self.learn_subscribed_topics()

    def become_stable(self, generation: int, wall_ms: int) -> None:
        """Make a group that has got its members a stable one of that generation; their assignments
        follow (``ClassicGroup.fromConsumerGroup``).
        """
        self.generation = generation
        self.protocol_name = self.select_protocol()
        self.learn_subscribed_topics()
        self.previous_state, self.state, self.state_since_ms = self.state, State.STABLE, wall_ms
        self.is_stored = True

    def forget_members(self) -> Slices[None]:
        """Make the group what it was before the first member joined; its offsets stay."""
        for member in list(self.members.values()):
            self.remove(member)
            yield
        self.previous_state, self.state = State.DEAD, State.EMPTY
        self.generation = 0
        self.protocol_type = self.protocol_name = self.leader = None
        self.pending_sync.clear()
        self.subscribed_topics = None
        self.is_stored = False

    def next_generation(self, wall_ms: int) -> None:
        """End the join phase: start a generation and wait for SyncGroup, or become empty."""
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.learn_subscribed_topics()
        self.enter(State.COMPLETING_REBALANCE if self.members else State.EMPTY, wall_ms)

    def learn_subscribed_topics(self) -> None:
        """Read the topics from the members' subscriptions (``computeSubscribedTopics``)."""
        self.subscribed_topics = None
        if self.uses_consumer_protocol and self.protocol_name is not None:
            name = self.protocol_name
            self.subscribed_topics = subscribed_topics(
                member.metadata(name) for member in self.members.values()
            )
        elif self.uses_consumer_protocol and not self.members:
            self.subscribed_topics = frozenset()

    def add(self, member: Member) -> None:
        """Add a new member. The first member of a group leads it and decides the protocol type."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader = self.leader or member.member_id
        self.remove_pending(member.member_id)
        self.members[member.member_id] = member
        self._count(member, 1)

    def remove(self, member: Member) -> None:
        """Remove a member. If it was the leader, the next member leads."""
        self._count(member, -1)
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_sync.discard(member.member_id)

    def update(
        self, member: Member, protocols: tuple[Protocol, ...], rebalance_ms: int, session_ms: int
    ) -> None:
        """Replace the subscription and timeouts of a member that joins again."""
        self._count(member, -1)
        member.protocols = protocols
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms
        self._count(member, 1)

    def rename_static(self, member: Member, member_id: str) -> None:
        """Give a static member that came back without its id a new one. It keeps its place and
        assignment.
        """
        assert member.instance_id is not None
        self._count(member, -1)
        old_id, member.member_id = member.member_id, member_id
        self.members = {m.member_id: m for m in self.members.values()}
        self.static_members[member.instance_id] = member_id
        if self.leader == old_id:
            self.leader = member_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(member_id)
        self._count(member, 1)

    def assign(self, member: Member, assignment: bytes) -> None:
        self._charge(member.owner, member_bytes=len(assignment) - len(member.assignment))
        member.assignment = assignment

    def elect_joined_leader(self) -> bool:
        """Elect a leader that has joined, if the present one has not; False if no member has
        (``maybeElectNewJoinedLeader``).
        """
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is None:
            joined = next(
                (m.member_id for m in self.members.values() if m.awaiting_join is not None), None
            )
            if joined is None:
                return False
            self.leader = joined
        return True

    def add_pending(self, member_id: str, owner: str = "") -> None:
        """Add ``member_id``, with which a client has to join once more (KIP-394)."""
        self.pending_members.add(member_id)
        self._pending_owners[member_id] = owner
        self._charge(owner, members=1, member_bytes=OVERHEAD + len(member_id))

    def remove_pending(self, member_id: str) -> None:
        if member_id in self.pending_members:
            self.pending_members.remove(member_id)
            owner = self._pending_owners.pop(member_id)
            self._charge(owner, members=-1, member_bytes=-OVERHEAD - len(member_id))

    def commit(self, where: TopicPartition, committed: Committed | None) -> None:
        """Replace the committed offset of a partition; None removes it."""
        before = self.offsets.pop(where, None)
        if before is not None:
            self._charge(before.owner, offset_bytes=-self.offset_size(where, before.metadata))
        if committed is not None:
            self.offsets[where] = committed
            self._charge(committed.owner, offset_bytes=self.offset_size(where, committed.metadata))

    def count_pending(self, where: TopicPartition, committed: Committed, sign: int) -> None:
        """Count one pending offset more, or one less."""
        self.pending_offsets += sign
        size = self.offset_size(where, committed.metadata)
        self._charge(committed.owner, offset_bytes=sign * size)

    def offset_size(self, where: TopicPartition, metadata: str) -> int:
        """Bytes that a committed offset takes in memory and in the store, which keeps its key and
        value (about).
        """
        names = len(self.group_id) + 2 * len(where[0])
        # A character beyond ASCII takes up to four bytes, in memory and on disk.
        return _OFFSET_OVERHEAD + names + (2 if metadata.isascii() else 8) * len(metadata)

    def discard(self) -> None:
        """Return the group's memory to ``usage``, when the group is removed."""
        assert not self.members and not self.pending_offsets
        for member_id in list(self.pending_members):
            self.remove_pending(member_id)
        for where in list(self.offsets):
            self.commit(where, None)
        self._charge(self.owner, groups=-1, member_bytes=-group_size(self.group_id))

    def _count(self, member: Member, sign: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._supported[name] += sign
            # Only those of the member: others may have thousands, and all members may leave at
            # once.
            if not self._supported[name]:
                del self._supported[name]
        self._charge(member.owner, members=sign, member_bytes=sign * member.size)

    def charge(self, owner: str, *, members: int = 0, member_bytes: int = 0) -> None:
        """Count memory of members that is not counted with them."""
        self._charge(owner, members=members, member_bytes=member_bytes)

    def _charge(
        self,
        owner: str,
        *,
        groups: int = 0,
        members: int = 0,
        member_bytes: int = 0,
        offset_bytes: int = 0,
    ) -> None:
        self.held.add(groups, members, member_bytes, offset_bytes)
        self._usage.count(
            owner,
            groups=groups,
            members=members,
            member_bytes=member_bytes,
            offset_bytes=offset_bytes,
        )


def group_size(group_id: str) -> int:
    """Bytes that a group without members and offsets takes (about)."""
    return OVERHEAD + len(group_id)
