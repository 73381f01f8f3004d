"""Changes consumer groups: takes one member a step further, removes members, and times them.

All that a request changes is first computed as records, against the group as it was; then the
records are applied. ``heartbeats`` and ``classic_members`` know what members ask for, in the
protocol of KIP-848 and in the classic one. Follows ``updateSubscriptionMetadata``,
``maybeReconcile`` and ``consumerGroupFenceMembers`` of Kafka's ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.base.slices import Slices
from gateway.groups.consumer import records as make
from gateway.groups.consumer.applying import Converted, apply
from gateway.groups.consumer.assignors.group_spec import Assignment
from gateway.groups.consumer.conversion import Conversion
from gateway.groups.consumer.faults import RefusedError
from gateway.groups.consumer.group import ConsumerGroup, regex_of
from gateway.groups.consumer.member import JOINING, Member, MemberState
from gateway.groups.consumer.reconciliation import (
    Reconciliation,
    Reported,
    UnknownMemberStateError,
)
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.consumer.subscriptions import Heartbeat, RegexStatus, Subscriptions
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.group import Group
from gateway.groups.rebalance import Rebalance
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid

#: A member is silent for too long; does not give partitions up in time; is told to join again, in
#: the classic protocol, and does not; joined in it, and does not sync.
SESSION_TIMER: Final = "consumer session"
REBALANCE_TIMER: Final = "consumer rebalance"
JOIN_TIMER: Final = "consumer join"
SYNC_TIMER: Final = "consumer sync"
MEMBER_TIMERS: Final = (SESSION_TIMER, REBALANCE_TIMER, JOIN_TIMER, SYNC_TIMER)


class Changed(NamedTuple):
    """The change of a member's subscription. ``bump``: the group needs a new epoch.
    ``subscription``: the member may have partitions of topics that it does not subscribe to.
    """

    bump: bool
    subscription: bool


class Changes:
    """Changes the consumer groups in ``state``."""

    def __init__(self, state: CoordinatorState, rebalance: Rebalance) -> None:
        self._state = state
        self.subscriptions = Subscriptions(state.topics, state.settings.consumer_assignors)
        self.conversion = Conversion(state, rebalance, self.subscriptions)

    def note_subscription(self, beat: Heartbeat) -> tuple[bool, RegexStatus, bool]:
        """Record what the member says of itself now. Returns whether its topics are others, what
        that does to the expressions of the group, and whether one of these is new. Raises
        RefusedError.
        """
        if beat.updated != beat.member:
            beat.records.append(make.member_subscription(beat.group.group_id, beat.updated))
        status, is_new = self.subscriptions.update_regex(beat)
        return beat.updated.topic_names != beat.member.topic_names, status, is_new

    def advance(
        self,
        group: Group | None,
        beat: Heartbeat,
        changed: Changed,
        owned: Reported,
        owner: str,
        converted: Converted | None = None,
    ) -> Slices[Member]:
        """Update the target assignment if need be, move the member towards it, and apply all
        records. ``group`` None is a new one; ``owned`` is what the member says that it has. Returns
        the member after it. Raises RefusedError.
        """
        kept, version = beat.group, self._state.topics.version
        epoch, kind = kept.epoch, kept.subscription_type
        if changed.bump or kept.checked_version != version:
            epoch, kind = yield from self.subscriptions.update_epoch(beat, changed.bump)
        configs = self._state.consumer_settings(kept.group_id)
        target_epoch, target = yield from self.subscriptions.update_target(
            beat, epoch, kind, configs.assignment_interval_ms
        )
        after = self.reconcile(beat, changed.subscription, target_epoch, target, owned)
        if not (yield from apply(self._state, group, kept, beat.records, owner, converted)):
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, "The group takes more memory than it may."
            )
        kept.checked_version = version
        if after != beat.updated:
            self._time_revocation(self._state.groups[kept.group_id], after)
        return after

    def reconcile(
        self,
        beat: Heartbeat,
        has_subscription_changed: bool,
        target_epoch: int,
        target: Assignment,
        owned: Reported,
    ) -> Member:
        """The member one step closer to its target. Raises RefusedError."""
        updated = beat.updated
        if not has_subscription_changed and updated.is_reconciled_to(target_epoch):
            return updated
        names = beat.group.subscribed_names(updated)

        def is_subscribed_to(topic_id: Uuid) -> bool:
            topic = self._state.topics.with_id(topic_id)
            return topic is not None and topic.name in names

        try:
            after = Reconciliation(
                member=updated,
                target_epoch=target_epoch,
                target=target,
                is_subscribed_to=is_subscribed_to,
                has_subscription=bool(names),
                has_subscription_changed=has_subscription_changed,
                reported=owned,
                partition_epoch=beat.group.partition_epoch,
            ).next_member()
        except UnknownMemberStateError:
            raise RefusedError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its "
                "partitions and rejoin.",
            ) from None
        if after != updated:
            beat.records.append(make.current_assignment(beat.group.group_id, after))
        return after

    def remove(
        self, group: Group, kept: ConsumerGroup, members: Collection[Member]
    ) -> Slices[None]:
        """Remove members and start a new epoch. A group that is left with classic members alone
        becomes a classic one, if the policy allows it.
        """
        if not members:
            return
        yield from self.cancel(group, members)
        if self.conversion.may_downgrade(kept, members):
            gone = {member.member_id for member in members}
            staying = [one for name, one in kept.members.items() if name not in gone]
            yield from self.cancel(group, staying)
            yield from self.conversion.downgrade(group, kept, staying)
            self.conversion.rebalance(group)
            return
        records = [
            record
            for member in members
            for record in make.member_tombstones(kept.group_id, member.member_id)
        ]
        counts: dict[str, int] = {}
        for member in members:
            regex = regex_of(member)
            if regex is not None:
                counts[regex] = counts.get(regex, 0) + 1
        lost = [regex for regex, count in counts.items() if kept.regexes[regex] == count]
        records += [make.regular_expression_tombstone(kept.group_id, regex) for regex in lost]
        topics = kept.topics_without(members, lost)
        metadata_hash = yield from self.subscriptions.hash_of(topics)
        records.append(make.group_epoch(kept.group_id, kept.epoch + 1, metadata_hash))
        yield from apply(self._state, group, kept, records, "")

    # Timers.

    def start_sessions(self, group: Group) -> Slices[None]:
        """Set the timers of the members of a group that was loaded, or converted."""
        assert group.consumer is not None
        for member in group.consumer.members.values():
            yield
            self.await_heartbeat(group, member)
            self._time_revocation(group, member)

    def await_heartbeat(self, group: Group, member: Member) -> None:
        """Start the member's session timeout; a classic member has chosen its own."""
        if member.classic is not None:
            session_ms = member.classic.session_timeout_ms
        else:
            session_ms = self._state.consumer_settings(group.group_id).session_timeout_ms
        self._state.schedule(SESSION_TIMER, group, session_ms, member.member_id)

    def cancel(self, group: Group, members: Collection[Member]) -> Slices[None]:
        """Cancel all timers of these members."""
        for member in members:
            yield
            for kind in MEMBER_TIMERS:
                self._state.cancel(kind, group, member.member_id)

    def on_timer(self, kind: str, group: Group, member_id: str) -> Slices[None]:
        """Remove a member whose time is over."""
        kept = group.consumer
        member = None if kept is None else kept.members.get(member_id)
        if kept is None or member is None:
            return
        if kind == REBALANCE_TIMER and not _is_revoking(member):
            return  # it has moved on since, or left for a while
        if kind in (JOIN_TIMER, SYNC_TIMER) and member.classic is None:
            return  # it uses the other protocol since
        yield from self.remove(group, kept, [member])

    def _time_revocation(self, group: Group, member: Member) -> None:
        """Give a member its rebalance timeout to give partitions up, if it has to. A classic member
        has to join for that, which has a timer of its own.
        """
        if _is_revoking(member):
            timeout_ms = member.rebalance_timeout_ms
            self._state.schedule(REBALANCE_TIMER, group, timeout_ms, member.member_id)
        else:
            self._state.cancel(REBALANCE_TIMER, group, member.member_id)


def _is_revoking(member: Member) -> bool:
    is_waited_for = member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch > JOINING
    return is_waited_for and member.classic is None


def replace_static(
    group: ConsumerGroup, known: Member, member_id: str, records: list[ConsumerRecord]
) -> Member:
    """Give a static member that comes back a new member id (``replaceMember``)."""
    member = replace(known, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
    records += make.member_tombstones(group.group_id, known.member_id)
    records.append(make.member_subscription(group.group_id, member))
    target = group.target_of(known.member_id, known.instance_id)
    records.append(make.target_assignment(group.group_id, member_id, target))
    records.append(make.current_assignment(group.group_id, member))
    return member
