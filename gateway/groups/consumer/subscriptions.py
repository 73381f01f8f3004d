"""Decides what a change of subscriptions means for a consumer group: a new epoch, a new target
assignment, regular expressions to resolve.

It reads groups and makes records; ``heartbeats`` applies them. Follows
``updateSubscriptionMetadata``, ``maybeUpdateTargetAssignment`` and
``maybeUpdateRegularExpressions`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.base.java.hash_order import hash_order, members_in_order, string_hash
from gateway.base.slices import Slices
from gateway.groups.consumer import records as make
from gateway.groups.consumer.assignors import ASSIGNORS
from gateway.groups.consumer.assignors.group_spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
)
from gateway.groups.consumer.faults import RefusedError
from gateway.groups.consumer.group import (
    NOTHING_ASSIGNED,
    ConsumerGroup,
    ResolvedRegex,
    regex_of,
)
from gateway.groups.consumer.member import Member
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.regex import regex_fault
from gateway.groups.consumer.topics import TopicHashes, Topics
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: Between two resolutions of a group's expressions at least, ms
#: (``REGEX_BATCH_REFRESH_MIN_INTERVAL_MS``).
_RESOLVE_INTERVAL_MS: Final = 10_000
_NEVER: Final = -(2**63)
#: Members whose topics are looked up between two slices.
_MEMBERS_PER_SLICE: Final = 10


class RegexStatus(enum.Enum):
    """``UpdateRegularExpressionStatus``"""

    UNCHANGED = 0
    UPDATED = 1
    UPDATED_AND_RESOLVED = 2


@dataclass(slots=True)
class Heartbeat:
    """The changes of one heartbeat, as they are found out. ``member`` is the member before it, a
    new one too; ``updated`` the member after it.
    """

    group: ConsumerGroup
    member: Member
    updated: Member
    records: list[ConsumerRecord]
    wall_ms: int


class Subscriptions:
    """Compares what groups subscribe to with ``topics``, and assigns them by one of
    ``assignors``.
    """

    def __init__(self, topics: Topics, assignors: Sequence[str]) -> None:
        self.topics = topics
        self._assignors = assignors
        self._hashes = TopicHashes(topics)

    def hash_of(self, names: Mapping[str, object]) -> Slices[int]:
        """The hash of the topics of that name."""
        return (yield from self._hashes.of_group(names))

    def forget(self, names: Mapping[str, object]) -> None:
        """Drop what is kept of topics of a group that is removed."""
        self._hashes.forget(names)

    def update_regex(self, beat: Heartbeat) -> tuple[RegexStatus, bool]:
        """Note a new expression of the member. Returns what it changes, and whether the group has
        an expression that is not resolved yet. Raises RefusedError.
        """
        group, old, new = beat.group, regex_of(beat.member), regex_of(beat.updated)
        if beat.member.topic_regex == beat.updated.topic_regex:
            return RegexStatus.UNCHANGED, False
        if old is not None and group.regexes[old] == 1:
            beat.records.append(make.regular_expression_tombstone(group.group_id, old))
        if new is None:
            return (RegexStatus.UPDATED if old is None else RegexStatus.UPDATED_AND_RESOLVED), False
        if not group.regexes[new]:
            reason = regex_fault(new)
            if reason is not None:
                raise RefusedError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"SubscribedTopicRegex `{new}` is not a valid regular expression: {reason}.",
                )
            return RegexStatus.UPDATED, True
        is_resolved = new in group.resolved
        return (RegexStatus.UPDATED_AND_RESOLVED if is_resolved else RegexStatus.UPDATED), False

    def regexes_to_resolve(
        self, beat: Heartbeat, is_new: bool, refresh_interval_ms: int
    ) -> tuple[str, ...]:
        """The expressions of the group, if they have to be compared with the topics now."""
        group = beat.group
        if (not is_new and not group.regexes) or group.is_resolving:
            return ()
        last: ResolvedRegex | None = next(iter(group.resolved.values()), None)
        last_ms = _NEVER if last is None else last.wall_ms
        if beat.wall_ms <= last_ms + _RESOLVE_INTERVAL_MS:
            return ()
        wanted = Counter(group.regexes)
        for member, change in ((beat.member, -1), (beat.updated, 1)):
            regex = regex_of(member)
            if regex is not None:
                wanted[regex] += change
        regexes = tuple(+wanted)
        is_due = (
            is_new
            or len(regexes) != len(group.resolved)
            or (0 if last is None else last.version) < self.topics.names_version
            or beat.wall_ms > last_ms + refresh_interval_ms
        )
        return regexes if is_due else ()

    def update_epoch(self, beat: Heartbeat, bump: bool) -> Slices[tuple[int, SubscriptionType]]:
        """Return the epoch of the group and the type of its subscriptions; a new epoch if ``bump``
        or if its topics have changed.
        """
        group, updated = beat.group, beat.updated
        topics = group.topics_with(beat.member, updated)
        metadata_hash = yield from self.hash_of(topics)
        members = len(group.members)
        is_known = updated.member_id in group.members or (
            updated.instance_id is not None and updated.instance_id in group.static_members
        )
        kind = group.subscription_type_with(
            beat.member, updated, topics, members if is_known else members + 1
        )
        epoch = group.epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            beat.records.append(make.group_epoch(group.group_id, epoch, metadata_hash))
        if group.has_subscription_metadata:
            beat.records.append(make.subscription_metadata_tombstone(group.group_id))
        return epoch, kind

    def update_target(
        self, beat: Heartbeat, epoch: int, kind: SubscriptionType, interval_ms: int
    ) -> Slices[tuple[int, Assignment]]:
        """Return the epoch of the target assignment and the member's part of it: a new one if the
        group has a newer epoch, but not two within ``interval_ms`` (KIP-1263).
        """
        group, updated = beat.group, beat.updated
        since = group.assigned_wall_ms
        is_early = since and interval_ms and beat.wall_ms < since + interval_ms
        if group.assignment_epoch >= epoch or is_early:
            last = group.target_of(updated.member_id, updated.instance_id)
            return group.assignment_epoch, last
        spec = yield from self._spec(beat, kind)
        assignor = group.preferred_assignor(beat.member, updated)
        if (
            assignor is None or assignor not in self._assignors
        ):  # another configuration may have allowed it
            assignor = self._assignors[0]
        target = yield from ASSIGNORS[assignor](spec)
        for member_id in members_in_order(spec.members):
            new = target.get(member_id, NOTHING_ASSIGNED)
            if new != group.target.get(member_id):
                beat.records.append(make.target_assignment(group.group_id, member_id, new))
                yield
        beat.records.append(make.target_assignment_epoch(group.group_id, epoch, beat.wall_ms))
        return epoch, target.get(updated.member_id, NOTHING_ASSIGNED)

    def _spec(self, beat: Heartbeat, kind: SubscriptionType) -> Slices[GroupSpec]:
        group, updated = beat.group, beat.updated
        counts: dict[Uuid, int] = {}
        found: dict[frozenset[str], list[Uuid]] = {}
        members: dict[str, MemberSpec] = {}
        after = {**group.members, updated.member_id: updated}
        replaced = (
            None if updated.instance_id is None else group.static_members.get(updated.instance_id)
        )
        if replaced is not None and replaced != updated.member_id:
            del after[replaced]
        for number, (member_id, member) in enumerate(after.items()):
            names = frozenset(group.subscribed_names(member))
            if names not in found:  # most members have the same
                found[names] = yield from self._topic_ids(names, counts)
            owner = replaced if member is updated and replaced is not None else member_id
            members[member_id] = MemberSpec(
                member.instance_id,
                found[names],
                len(names),
                group.target.get(owner, NOTHING_ASSIGNED),
            )
            if number % _MEMBERS_PER_SLICE == 0:
                yield
        return GroupSpec(members, kind, group.assigned, counts)

    def _topic_ids(self, names: frozenset[str], counts: dict[Uuid, int]) -> Slices[list[Uuid]]:
        topic_ids = []
        for name in hash_order(names, string_hash):
            topic = self.topics.named(name)
            if topic is not None:
                topic_ids.append(topic.topic_id)
                counts[topic.topic_id] = topic.partitions
            if len(topic_ids) % 100 == 0:
                yield
        return topic_ids
