"""Moves one member towards its target assignment (``CurrentAssignmentBuilder``).

A member first gives up what it should not have, then takes what is free, and waits for what others
have not given up yet. It reads a group and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.member import NOTHING, Member, MemberState, OwnedPartitions
from kwire.uuid import Uuid

#: Partitions that a member says that it has: (topic id, partitions); None: it does not say.
Reported = Sequence[tuple[Uuid, Sequence[int]]] | None


class UnknownMemberStateError(Exception):
    """The member's record is of a newer Kafka: it has to join again, without partitions."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """``is_subscribed_to``: whether the member subscribes to a topic that exists;
    ``has_subscription``: whether it subscribes to any. ``partition_epoch`` of a partition that
    no member has is -1.
    """

    member: Member
    target_epoch: int
    target: Assignment
    is_subscribed_to: Callable[[Uuid], bool]
    has_subscription: bool
    has_subscription_changed: bool
    reported: Reported
    partition_epoch: Callable[[Uuid, int], int]

    def next_member(self) -> Member:
        """The member in its next state, which may be its present one. Raises
        UnknownMemberStateError.
        """
        member = self.member
        match member.state:
            case MemberState.STABLE if member.epoch != self.target_epoch:
                return self._towards_target(member.epoch)
            case MemberState.STABLE:
                return self._without_unsubscribed() if self.has_subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._still_has(member.pending_revocation):
                return self._without_unsubscribed() if self.has_subscription_changed else member
            case MemberState.UNKNOWN:
                if self.reported is None or self.reported:
                    raise UnknownMemberStateError
                return self._towards_target(self.target_epoch)
            case _:
                return self._towards_target(member.epoch)

    def _still_has(self, revoked: OwnedPartitions) -> bool:
        """Whether the member says that it has one of these, or says nothing."""
        if self.reported is None:
            return True
        return any(
            partition in revoked.get(topic_id, ())
            for topic_id, partitions in self.reported
            for partition in partitions
        )

    def _without_unsubscribed(self) -> Member:
        """The member without partitions of topics that it does not subscribe to any more."""
        member = self.member
        dropped = {
            topic_id: epochs
            for topic_id, epochs in member.assigned.items()
            if not self.is_subscribed_to(topic_id)
        }
        if not dropped and (self.has_subscription or member.pending_revocation):
            return member
        kept = {one: epochs for one, epochs in member.assigned.items() if one not in dropped}
        if not dropped:  # nothing is subscribed to, and nothing is assigned
            return member.with_epoch(member.epoch, assigned=kept)
        pending = dict(member.pending_revocation)
        for topic_id, epochs in dropped.items():
            pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
        if self._still_has(pending):
            return member.with_epoch(
                member.epoch,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=kept,
                pending_revocation=pending,
            )
        return member.with_epoch(member.epoch, assigned=kept)

    def _towards_target(self, epoch: int) -> Member:
        member = self.member
        kept: dict[Uuid, Mapping[int, int]] = {}
        revoked: dict[Uuid, Mapping[int, int]] = {}
        added: dict[Uuid, list[int]] = {}
        waits = False
        for topic_id in dict.fromkeys([*self.target, *member.assigned]):
            target = self.target.get(topic_id, frozenset())
            if not self.is_subscribed_to(topic_id):
                target = frozenset()
            owned = member.assigned.get(topic_id, {})
            keep = {one: since for one, since in owned.items() if one in target}
            revoke = {one: since for one, since in owned.items() if one not in target}
            own_pending = member.pending_revocation.get(topic_id, {})
            missing = target - keep.keys()
            free = [
                one
                for one in missing
                if self.partition_epoch(topic_id, one) == -1 or one in own_pending
            ]
            waits = waits or len(free) < len(missing)
            for found, part in ((kept, keep), (revoked, revoke)):
                if part:
                    found[topic_id] = part
            if free:
                added[topic_id] = free
        if revoked and self._still_has(revoked):
            return member.with_epoch(
                epoch,
                state=MemberState.UNREVOKED_PARTITIONS,
                assigned=kept,
                pending_revocation=revoked,
            )
        for topic_id, partitions in added.items():
            new = dict.fromkeys(partitions, self.target_epoch)
            kept[topic_id] = {**kept.get(topic_id, {}), **new}
        state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
        return replace(
            member.with_epoch(self.target_epoch, state=state),
            assigned=kept,
            pending_revocation=NOTHING,
        )
