"""Commits, fetches, deletes and expires the offsets of groups.

``transactional_offsets`` has those of transactions. Follows Kafka's ``OffsetMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.base.slices import Slices, in_order, pieces
from gateway.groups.consumer.commits import partitions_fault
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest, Record
from gateway.groups.events import (
    NO_MEMBER,
    CommitResult,
    Committed,
    FetchedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteResult,
    OffsetFetch,
    OffsetFetchResult,
    TopicPartition,
)
from gateway.groups.group import Group, State
from gateway.groups.rebalance import Rebalance
from gateway.groups.records import offset_record, offset_tombstone
from gateway.groups.timers import Timer
from kwire.protocol import ErrorCode

_LONG_MAX: Final = 2**63 - 1
#: Offsets that are looked up, or replaced in memory, between two slices: less than 1 ms.
_OFFSETS_PER_SLICE: Final = 200
#: Offsets and groups that one step of expiry examines: 15 ms if all of them expire. (A group is not
#: divided.)
_EXPIRY_SLICE: Final = 2000


class Offsets:
    """Handles the offsets of the groups in ``state``."""

    def __init__(self, state: CoordinatorState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance
        self._to_expire: list[
            str
        ] = []  # groups that this round of expiry has still to examine, the next one last

    def commit(self, asked: PendingRequest, event: OffsetCommit) -> Slices[None]:
        """Commit offsets of a member, or of any client while the group is empty."""
        group = self._state.groups.get(event.group_id)
        if group is None and event.generation >= 0:
            error = (
                ErrorCode.GROUP_ID_NOT_FOUND
                if event.knows_group_id_not_found
                else ErrorCode.ILLEGAL_GENERATION
            )
            self._state.answer(asked, event.failed(error))
            return
        if group is None:
            group = self._state.create(event.group_id, event.owner)
        has_room = False
        if group is not None:
            has_room = yield from self._has_room(group, event)
        if group is None or not has_room:
            self._state.answer(asked, event.failed(ErrorCode.POLICY_VIOLATION))
            if group is not None:
                self._state.forget_if_blank(group)
            return
        fault = group.commit_fault(event.member_id, event.instance_id, event.generation)
        if group.consumer is not None and event.member_id in group.consumer.members:
            fault = self._consumer_fault(group.consumer, event, fault)
        if fault is not ErrorCode.NONE:
            self._state.answer(asked, event.failed(fault))
            return
        member = group.members.get(event.member_id)
        if member is not None:
            # a commit proves that the member is alive
            self._rebalance.await_heartbeat(group, member)
        yield from self._keep(asked, event, group)

    def _consumer_fault(
        self, group: ConsumerGroup, event: OffsetCommit, fault: ErrorCode
    ) -> ErrorCode:
        """The error of the commit of a member of a consumer group, ``fault`` if its epoch is wrong.
        That of one partition is that of all.
        """
        is_classic = group.members[event.member_id].classic is not None
        if not is_classic and not event.knows_group_id_not_found:  # before version 9
            return ErrorCode.UNSUPPORTED_VERSION
        if fault is not ErrorCode.NONE:
            return fault
        longest = self._state.settings.offset_metadata_max
        taken = (one for one in event.offsets if len(one.metadata) <= longest)
        topics = self._state.topics
        return partitions_fault(group, event.member_id, event.generation, taken, topics)

    def _has_room(self, group: Group, event: OffsetCommit) -> Slices[bool]:
        """True if limits allow the commit. A commit that replaces an offset without growth is
        always allowed.
        """
        growth = owner_growth = 0
        sizes: dict[TopicPartition, int] = {}
        for wanted in event.offsets:
            where = wanted.topic, wanted.partition
            size = group.offset_size(where, wanted.metadata)
            known = sizes.get(where)
            if known is None:
                before = group.offsets.get(where)
                known = 0 if before is None else group.offset_size(where, before.metadata)
                if size > known and before is not None and before.owner != event.owner:
                    # an offset that grows is charged as a whole to the client that grew it
                    owner_growth += known
            growth += size - known
            owner_growth += max(size - known, 0)
            sizes[where] = size
            yield
        return self._state.has_room_for_offsets(group, event.owner, growth, owner_growth)

    def _keep(self, asked: PendingRequest, event: OffsetCommit, group: Group) -> Slices[None]:
        wall_ms = self._state.moment.wall_ms
        # A client may send any int64 of milliseconds; the sum has to fit the record's int64.
        expires = -1 if event.retention_ms < 0 else min(wall_ms + event.retention_ms, _LONG_MAX)
        kept: list[tuple[TopicPartition, Committed]] = []
        records: list[Record] = []
        owners: dict[bytes, str] = {}
        errors = []
        for wanted in event.offsets:
            if len(wanted.metadata) > self._state.settings.offset_metadata_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            where = (wanted.topic, wanted.partition)
            owner = self._owner(group, where, wanted.metadata, event.owner)
            committed = Committed(
                wanted.offset, wanted.leader_epoch, wanted.metadata, wall_ms, expires, owner
            )
            record = offset_record(group.group_id, where, committed)
            records.append(record)
            if owner:
                owners[record[0]] = owner
            kept.append((where, committed))
            errors.append(ErrorCode.NONE)
            yield
        # Encode all records before keeping any offset: memory never holds what the disk will not.
        for some in pieces(kept, _OFFSETS_PER_SLICE):
            for where, committed in some:
                group.commit(where, committed)
                if group.pending_offsets:
                    self._state.pending.committed_since(group.group_id, where)
            yield
        self._state.persist(group, records, owners)
        self._state.answer(asked, CommitResult(errors=errors), group)
        self._state.forget_if_blank(group)

    def _owner(self, group: Group, where: TopicPartition, metadata: str, owner: str) -> str:
        """The owner that an offset is charged to: the first to commit it, until another makes it
        larger. So a principal that has used up its share can still commit progress.
        """
        before = group.offsets.get(where)
        if before is None or not before.owner or len(metadata) > len(before.metadata):
            return owner
        return before.owner

    def fetch(self, asked: PendingRequest, event: OffsetFetch) -> Slices[None]:
        """Answer OffsetFetch. A group that does not exist has no offsets; as in Kafka that is no
        error.
        """
        fetched = []
        persisted = 0
        for number, (group_id, wanted) in enumerate(event.groups):
            group = self._state.groups.get(group_id)
            if group is not None:
                persisted = max(persisted, group.persisted)
            member = event.members[number] if event.members else NO_MEMBER
            fault = _fetch_fault(group, *member)
            if fault is not ErrorCode.NONE:
                fetched.append(FetchedGroup(group_id, fault))
                continue
            found = yield from _fetched({} if group is None else group.offsets, wanted)
            unstable: list[TopicPartition] = []
            if event.require_stable and group is not None and group.pending_offsets:
                for some in pieces(found, _OFFSETS_PER_SLICE):
                    unstable += [w for w, _ in some if self._state.pending.has(group_id, w)]
                    yield
            fetched.append(FetchedGroup(group_id, ErrorCode.NONE, found, frozenset(unstable)))
            yield
        self._state.answer_after(asked, OffsetFetchResult(groups=fetched), persisted)

    def delete(self, asked: PendingRequest, event: OffsetDelete) -> Slices[None]:
        """Delete offsets of topics that no member of the group subscribes to (KIP-496)."""
        group = self._state.groups.get(event.group_id)
        if group is None:
            self._state.answer(asked, event.failed(ErrorCode.GROUP_ID_NOT_FOUND))
        elif not group.is_empty and group.consumer is None and not group.uses_consumer_protocol:
            self._state.answer(asked, event.failed(ErrorCode.NON_EMPTY_GROUP))
        else:
            yield from self._delete_from(asked, event, group)

    def _delete_from(
        self, asked: PendingRequest, event: OffsetDelete, group: Group
    ) -> Slices[None]:
        records: list[Record] = []
        errors = []
        for where in event.partitions:
            subscribed = group.is_subscribed_to(where[0])
            if not subscribed:
                self._tombstone(group, where, records)
            errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE)
            yield
        self._state.persist(group, records)
        self._state.answer(asked, OffsetDeleteResult(error=ErrorCode.NONE, errors=errors), group)

    def delete_all(self, group: Group, records: list[Record]) -> Slices[None]:
        """Delete every offset of the group; ``records`` gets their tombstones."""
        for where in [*group.offsets, *self._state.pending.places(group.group_id)]:
            self._tombstone(group, where, records)
            yield

    def _tombstone(self, group: Group, where: TopicPartition, records: list[Record]) -> None:
        is_pending = group.pending_offsets and self._state.pending.has(group.group_id, where)
        if where in group.offsets or is_pending:
            group.commit(where, None)
            self._state.pending.remove(group, where)
            records.append(offset_tombstone(group.group_id, where))

    # Expiry.

    def schedule_expiry(self) -> None:
        interval_ms = self._state.settings.retention_check_interval_ms
        self._state.timers.schedule(Timer("expiry"), self._state.moment.now + interval_ms / 1000)

    def on_expiry_timer(self) -> None:
        """Delete offsets whose retention is over, and empty groups without offsets. Continues in 1
        ms if groups are left.
        """
        self.schedule_expiry()
        if not self._to_expire:
            self._to_expire = list(reversed(self._state.groups))
        looked_at = 0
        while self._to_expire and looked_at < _EXPIRY_SLICE:
            group = self._state.groups.get(self._to_expire.pop())
            if group is None:
                continue
            looked_at += 1 + len(group.offsets)
            records: list[Record] = []
            for where in [
                where
                for where, committed in group.offsets.items()
                if self._is_expired(group, where, committed)
            ]:
                self._tombstone(group, where, records)
            if group.is_blank:
                self._state.forget(group, records)
            self._state.persist(group, records)
        if self._to_expire:
            self._state.timers.schedule(Timer("expiry"), self._state.moment.now + 0.001)

    def _is_expired(self, group: Group, where: TopicPartition, committed: Committed) -> bool:
        """True if the retention is over (``ClassicGroup.offsetExpirationCondition``). It begins
        when the group became empty, or else at the commit.
        """
        if group.is_subscribed_to(where[0]):
            return False
        if group.pending_offsets and self._state.pending.has(group.group_id, where):
            return False
        since = committed.commit_timestamp
        if group.protocol_type is not None and group.consumer is None:
            if group.state is State.EMPTY:
                since = since if group.state_since_ms < 0 else group.state_since_ms
            elif not (group.state is State.STABLE and group.uses_consumer_protocol):
                return False  # a member may read the topic; its subscriptions are not known
        if committed.expire_timestamp >= 0:
            return self._state.moment.wall_ms >= committed.expire_timestamp
        return self._state.moment.wall_ms - since >= self._state.settings.offsets_retention_ms


def _fetch_fault(group: Group | None, member_id: str | None, epoch: int) -> ErrorCode:
    """The error of a member that asks for offsets; every client may ask for those of a classic
    group.
    """
    if group is None or group.consumer is None:
        return ErrorCode.NONE
    return group.consumer.fetch_fault(member_id, epoch)


def _fetched(
    offsets: Mapping[TopicPartition, Committed], wanted: tuple[TopicPartition, ...] | None
) -> Slices[list[tuple[TopicPartition, Committed | None]]]:
    """Return the committed offset of each partition ``wanted``, None where there is none.
    ``wanted`` None: all committed offsets, sorted by topic and partition.
    """
    found: list[tuple[TopicPartition, Committed | None]] = []
    asked: Iterable[TopicPartition] = (
        wanted if wanted is not None else (yield from in_order(offsets))
    )
    for some in pieces(asked, _OFFSETS_PER_SLICE):
        found += [(where, offsets.get(where)) for where in some]
        yield
    return found
