"""Holds one consumer group of KIP-848, which changes by its records alone (``ConsumerGroup``).

``replay`` applies one record; what a request changes is first computed as records, then replayed.
So the state is always what a restart reads from the log. It answers nothing and has no timers:
``heartbeats`` does.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any, Final, NamedTuple

from gateway.base.java.hash_order import capacity_for, hash_order, string_hash
from gateway.groups.consumer import records as make
from gateway.groups.consumer.assignors.group_spec import Assignment, SubscriptionType
from gateway.groups.consumer.member import (
    LEAVING,
    NOTHING,
    Member,
    MemberState,
)
from gateway.groups.consumer.records import ConsumerRecord, owned_partitions
from gateway.groups.consumer.subscription_counts import (
    SubscriptionCount,
    count,
    subscription_type,
)
from gateway.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kwire.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from kwire.messages.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from kwire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kwire.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from kwire.messages.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from kwire.messages.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from kwire.messages.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: Epoch of a group before its first record, and of its first target assignment.
FIRST_EPOCH: Final = 1


class ConsumerState(enum.Enum):
    """``ConsumerGroupState``. A dead group is one that does not exist."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, as of a version of the metadata."""

    topics: frozenset[str]
    version: int
    wall_ms: int


class ConsumerGroup:
    """The state of one group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # group.instance.id -> member id
        self.topics: dict[str, SubscriptionCount] = {}
        self.target: dict[str, Assignment] = {}
        self.assigned: dict[Uuid, dict[int, str]] = {}  # the target by partition
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_wall_ms = 0
        self.partition_epochs: dict[Uuid, dict[int, int]] = {}  # epoch of the present owner
        self.regexes: Counter[str] = Counter()  # expression -> members with it
        self.resolved: dict[str, ResolvedRegex] = {}
        self.has_subscription_metadata = False  # a record of Kafka before 4.1
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()  # name -> classic members with it
        # The fields below are not in the log.
        self.checked_version = -1  # version of the topics when the hash was compared last
        self.is_resolving = False  # its expressions are being compared with topics
        self._assignors: Counter[str] = Counter()
        self._state: ConsumerState | None = None

    # Queries.

    @property
    def state(self) -> ConsumerState:
        """The state, which is computed again after a change."""
        if self._state is None:
            self._state = self._current_state()
        return self._state

    def _current_state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerState.ASSIGNING
        if all(one.is_reconciled_to(self.assignment_epoch) for one in self.members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    def static_member(self, instance_id: str | None) -> Member | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The target of a member; of a static one, that of its instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.target.get(member_id, NOTHING_ASSIGNED)

    def partition_epoch(self, topic_id: Uuid, partition: int) -> int:
        """The epoch of the member that has the partition; -1 if no member has it."""
        return self.partition_epochs.get(topic_id, {}).get(partition, -1)

    def preferred_assignor(
        self, old: Member | None = None, new: Member | None = None
    ) -> str | None:
        """The assignor that most members ask for, with ``new`` in place of ``old``."""
        counts = Counter(self._assignors)
        for member, change in ((old, -1), (new, 1)):
            if member is not None and member.assignor is not None:
                counts[member.assignor] += change
        # Of equal ones the first of Kafka's HashMap.
        in_order = hash_order(+counts, string_hash, capacity_for(len(counts)))
        return max(in_order, key=counts.__getitem__, default=None)

    def topics_with(self, old: Member | None, new: Member | None) -> dict[str, SubscriptionCount]:
        """The subscriptions with ``new`` in place of ``old``."""
        topics = dict(self.topics)
        for name in () if old is None else old.topic_names:
            count(topics, name, by_name=-1)
        for name in () if new is None else new.topic_names:
            count(topics, name, by_name=1)
        regex = regex_of(old)
        if regex is not None and regex != regex_of(new) and self.regexes[regex] == 1:
            self._without_regex(topics, regex)
        return topics

    def topics_without(
        self, members: Iterable[Member], regexes: Iterable[str]
    ) -> dict[str, SubscriptionCount]:
        """The subscriptions without these members and expressions."""
        topics = dict(self.topics)
        for member in members:
            for name in member.topic_names:
                count(topics, name, by_name=-1)
        for regex in regexes:
            self._without_regex(topics, regex)
        return topics

    def _without_regex(self, topics: dict[str, SubscriptionCount], regex: str) -> None:
        for name in self.resolved_topics(regex):
            count(topics, name, by_regex=-1)

    def move_regex(
        self, topics: dict[str, SubscriptionCount], regex: str, found: Iterable[str]
    ) -> None:
        """Count in ``topics`` what an expression matches now in place of what it matched."""
        self._without_regex(topics, regex)
        for name in found:
            count(topics, name, by_regex=1)

    def tombstones(self) -> list[ConsumerRecord]:
        """The records that delete the group."""
        group_id = self.group_id
        removed = [make.member_tombstones(group_id, member_id) for member_id in self.members]
        return [
            *(record for of_member in removed for record in of_member),
            make.target_assignment_epoch_tombstone(group_id),
            *(make.regular_expression_tombstone(group_id, regex) for regex in self.resolved),
            make.subscription_metadata_tombstone(group_id),
            make.group_epoch_tombstone(group_id),
        ]

    def resolved_topics(self, regex: str | None) -> frozenset[str]:
        """The topics that an expression matched; none if it was not resolved."""
        found = self.resolved.get(regex) if regex else None
        return frozenset() if found is None else found.topics

    def subscribed_names(self, member: Member) -> Set[str]:
        """All topics of a member, by name and by expression."""
        return member.topic_names | self.resolved_topics(member.topic_regex)

    def subscription_type_with(
        self, old: Member, new: Member, topics: Mapping[str, SubscriptionCount], members: int
    ) -> SubscriptionType:
        """Whether all members subscribe to the same topics, with ``new`` in place of ``old``."""
        regexes = Counter(self.regexes)
        if regex_of(old) != regex_of(new):
            for member, change in ((old, -1), (new, 1)):
                regex = regex_of(member)
                if regex is not None:
                    regexes[regex] += change
        return subscription_type(+regexes, topics, members)

    @property
    def subscription_type(self) -> SubscriptionType:
        return subscription_type(self.regexes, self.topics, len(self.members))

    def commit_fault(self, member_id: str, epoch: int) -> ErrorCode:
        """The error of a commit; NONE too where each partition has to be looked at with
        ``partition_fault`` (``validateOffsetCommit``).
        """
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return member.stale_error if epoch > member.epoch else ErrorCode.NONE

    def partition_fault(
        self, member_id: str, epoch: int, topic_id: Uuid, partition: int
    ) -> ErrorCode:
        """The error of a commit to one partition. A member with an older epoch may commit to what
        it has had since then.
        """
        member = self.members.get(member_id)
        if member is None or epoch == member.epoch:
            return ErrorCode.NONE
        since = member.epoch_of(topic_id, partition)
        return member.stale_error if since is None or epoch < since else ErrorCode.NONE

    def fetch_fault(self, member_id: str | None, epoch: int) -> ErrorCode:
        """The error of a member that asks for offsets (``validateOffsetFetch``)."""
        if member_id is None and epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == member.epoch else member.stale_error

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a classic member with these protocols may join: all classic members have one of
        them (``supportsClassicProtocols``).
        """
        return protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            self.classic_protocols[name] == self.classic_members for name in names
        )

    def waits_for_others(self, member: Member) -> bool:
        """Whether another member has not given up a partition that this one is to get
        (``waitingOnUnreleasedPartition``).
        """
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            self.partition_epoch(topic_id, partition) != -1
            for topic_id, partitions in self.target.get(member.member_id, NOTHING_ASSIGNED).items()
            for partition in partitions - member.assigned.get(topic_id, {}).keys()
        )

    # Changes.

    def replay(self, record: ConsumerRecord) -> None:
        """Apply a record. A tombstone of the group itself has no effect here: its owner drops the
        group.
        """
        self._state = None
        key, value = record.key, record.value
        match key:
            case ConsumerGroupMetadataKey():
                if value is not None:
                    self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupPartitionMetadataKey():
                self.has_subscription_metadata = value is not None
            case ConsumerGroupMemberMetadataKey():
                self._replay_subscription(key.member_id, value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assigned_wall_ms = 0 if value is None else value.assignment_timestamp
            case ConsumerGroupTargetAssignmentMemberKey():
                self._replay_target(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, value)
            case ConsumerGroupRegularExpressionKey():
                self._replay_regex(key.regular_expression, value)

    def _replay_subscription(self, member_id: str, value: Any) -> None:
        old = self.members.get(member_id)
        if value is None:
            self._replace(old, None)
            return
        changes = {
            "instance_id": value.instance_id,
            "rack_id": value.rack_id,
            "client_id": value.client_id,
            "client_host": value.client_host,
            "topic_names": frozenset(value.subscribed_topic_names),
            "topic_regex": value.subscribed_topic_regex,
            "rebalance_timeout_ms": value.rebalance_timeout_ms,
            "assignor": value.server_assignor,
            "classic": value.classic_member_metadata,
        }
        self._replace(old, replace(old or Member(member_id), **changes))

    def _replay_current(self, member_id: str, value: Any) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._replace(
                    old,
                    replace(
                        old,
                        epoch=LEAVING,
                        previous_epoch=LEAVING,
                        assigned=NOTHING,
                        pending_revocation=NOTHING,
                    ),
                )
            return
        epoch = value.member_epoch
        new = replace(
            old or Member(member_id),
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=owned_partitions(value.assigned_partitions, epoch),
            pending_revocation=owned_partitions(value.partitions_pending_revocation, epoch),
        )
        self._replace(old, new)

    def _replay_target(self, member_id: str, value: Any) -> None:
        before = self.target.pop(member_id, NOTHING_ASSIGNED)
        for topic_id, partitions in before.items():
            owners = self.assigned.get(topic_id, {})
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self.assigned.pop(topic_id, None)
        if value is not None:
            target = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}
            for topic_id, partitions in target.items():
                owned = self.assigned.setdefault(topic_id, {})
                owned.update(dict.fromkeys(partitions, member_id))
            self.target[member_id] = target

    def _replay_regex(self, regex: str, value: Any) -> None:
        self._without_regex(self.topics, regex)
        self.resolved.pop(regex, None)
        if value is not None:
            found = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            self.resolved[regex] = found
            for name in found.topics:
                count(self.topics, name, by_regex=1)

    def _replace(self, old: Member | None, new: Member | None) -> None:
        """Put ``new`` in the place of ``old``: None is no member."""
        if old is not None:
            for name in old.topic_names:
                count(self.topics, name, by_name=-1)
            self._count(old, -1)
            self._free(old)
            if old.instance_id is not None and (
                self.static_members.get(old.instance_id) == old.member_id
            ):
                del self.static_members[old.instance_id]
        if new is None:
            if old is not None:
                del self.members[old.member_id]
            return
        self.members[new.member_id] = new
        for name in new.topic_names:
            count(self.topics, name, by_name=1)
        self._count(new, 1)
        self._take(new)
        if new.instance_id is not None:
            self.static_members[new.instance_id] = new.member_id

    def _count(self, member: Member, change: int) -> None:
        for counts, name in ((self._assignors, member.assignor), (self.regexes, regex_of(member))):
            if name is not None:
                counts[name] += change
                if counts[name] <= 0:
                    del counts[name]
        if member.classic is not None:
            self.classic_members += change
            for name in {protocol.name for protocol in member.classic.supported_protocols}:
                self.classic_protocols[name] += change
                if not self.classic_protocols[name]:
                    del self.classic_protocols[name]

    def _take(self, member: Member) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self.partition_epochs.setdefault(topic_id, {})
                for partition in partitions:
                    # In a log that was compacted in part, a newer owner may come first.
                    epochs[partition] = max(member.epoch, epochs.get(partition, member.epoch))

    def _free(self, member: Member) -> None:
        for owned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in owned.items():
                epochs = self.partition_epochs.get(topic_id, {})
                for partition in partitions:
                    if epochs.get(partition) == member.epoch:
                        del epochs[partition]
                if not epochs:
                    self.partition_epochs.pop(topic_id, None)


NOTHING_ASSIGNED: Final[Assignment] = {}


def regex_of(member: Member | None) -> str | None:
    """The regular expression of a member; None without one."""
    return member.topic_regex or None if member is not None else None
