"""Committed offsets: commit, fetch, delete, and expiry (``OffsetMetadataManager``, without transactions)."""

from __future__ import annotations

from gateway.groups.book import Book
from gateway.groups.effects import Asked, Record
from gateway.groups.errors import Error
from gateway.groups.events import (
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


class Offsets:
    """Works on the groups of ``book``."""

    def __init__(self, book: Book, rebalance: Rebalance) -> None:
        self._book = book
        self._rebalance = rebalance

    def commit(self, asked: Asked, event: OffsetCommit) -> None:
        """Keep the offsets of a member of this generation, or of anybody while the group is empty."""
        group = self._book.groups.get(event.group_id)
        if group is None and event.generation >= 0:
            error = Error.GROUP_ID_NOT_FOUND if event.knows_group_id_not_found else Error.ILLEGAL_GENERATION
            self._book.answer(asked, event.failed(error))
            return
        if group is None:
            group = self._book.create(event.group_id)
        if group is None or not self._has_room(group, event):
            self._book.answer(asked, event.failed(Error.POLICY_VIOLATION))
            return
        fault = group.commit_fault(event.member_id, event.instance_id, event.generation)
        if fault is not Error.NONE:
            self._book.answer(asked, event.failed(fault))
            return
        member = group.members.get(event.member_id)
        if member is not None:
            self._rebalance.await_heartbeat(group, member)  # a commit is a sign of life
        self._keep(asked, event, group)

    def _has_room(self, group: Group, event: OffsetCommit) -> bool:
        """What is committed already can be moved on even when there is no room for more."""
        if self._book.usage.bytes < self._book.settings.bytes_max:
            return True
        return all((said.topic, said.partition) in group.offsets for said in event.offsets)

    def _keep(self, asked: Asked, event: OffsetCommit, group: Group) -> None:
        wall_ms = self._book.moment.wall_ms
        expires = -1 if event.retention_ms < 0 else wall_ms + event.retention_ms
        records: list[Record] = []
        errors = []
        for said in event.offsets:
            if len(said.metadata) > self._book.settings.offset_metadata_max:
                errors.append(Error.OFFSET_METADATA_TOO_LARGE)
                continue
            where = (said.topic, said.partition)
            committed = Committed(said.offset, said.leader_epoch, said.metadata, wall_ms, expires)
            group.commit(where, committed)
            records.append(offset_record(group.group_id, where, committed))
            errors.append(Error.NONE)
        self._book.persist(group, records)
        self._book.answer(asked, CommitResult(errors=errors), group)
        self._book.forget_if_blank(group)

    def fetch(self, asked: Asked, event: OffsetFetch) -> None:
        """What the groups committed. A group that does not exist committed nothing; that is no error (as in Kafka)."""
        seen = [group for group_id, _ in event.groups if (group := self._book.groups.get(group_id)) is not None]
        fetched = [self._fetch_one(group_id, wanted) for group_id, wanted in event.groups]
        self._book.answer(asked, OffsetFetchResult(groups=fetched), *seen)

    def _fetch_one(self, group_id: str, wanted: tuple[TopicPartition, ...] | None) -> FetchedGroup:
        group = self._book.groups.get(group_id)
        offsets = {} if group is None else group.offsets
        if wanted is None:
            return FetchedGroup(group_id, Error.NONE, sorted(offsets.items()))
        return FetchedGroup(group_id, Error.NONE, [(where, offsets.get(where)) for where in wanted])

    def delete(self, asked: Asked, event: OffsetDelete) -> None:
        """Forget offsets of topics that the group does not read at this moment (KIP-496)."""
        group = self._book.groups.get(event.group_id)
        if not event.group_id:
            self._book.answer(asked, event.failed(Error.INVALID_GROUP_ID))
        elif group is None:
            self._book.answer(asked, event.failed(Error.GROUP_ID_NOT_FOUND))
        elif group.state is not State.EMPTY and not group.uses_consumer_protocol:
            self._book.answer(asked, event.failed(Error.NON_EMPTY_GROUP))
        else:
            self._delete_from(asked, event, group)

    def _delete_from(self, asked: Asked, event: OffsetDelete, group: Group) -> None:
        records: list[Record] = []
        errors = []
        for where in event.partitions:
            subscribed = group.is_subscribed_to(where[0])
            if not subscribed:
                self._tombstone(group, where, records)
            errors.append(Error.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else Error.NONE)
        self._book.persist(group, records)
        self._book.answer(asked, OffsetDeleteResult(error=Error.NONE, errors=errors), group)

    def delete_all(self, group: Group, records: list[Record]) -> None:
        """Forget every offset of the group; ``records`` gets their tombstones."""
        for where in list(group.offsets):
            self._tombstone(group, where, records)

    def _tombstone(self, group: Group, where: TopicPartition, records: list[Record]) -> None:
        if where in group.offsets:
            group.commit(where, None)
            records.append(offset_tombstone(group.group_id, where))

    # Expiry.

    def schedule_expiry(self) -> None:
        interval_ms = self._book.settings.retention_check_interval_ms
        self._book.timers.schedule(Timer("expiry"), self._book.moment.now + interval_ms / 1000)

    def on_expiry_timer(self) -> None:
        """Forget offsets whose retention is over, and empty groups that have none left."""
        for group in list(self._book.groups.values()):
            records: list[Record] = []
            for where in [where for where, committed in group.offsets.items() if self._is_expired(group, where, committed)]:
                self._tombstone(group, where, records)
            if group.is_blank:
                self._book.forget(group, records)
            self._book.persist(group, records)
        self.schedule_expiry()

    def _is_expired(self, group: Group, where: TopicPartition, committed: Committed) -> bool:
        """``ClassicGroup.offsetExpirationCondition``: counted from when the group became empty, else from the commit."""
        if group.is_subscribed_to(where[0]):
            return False
        since = committed.commit_timestamp
        if group.protocol_type is not None:
            if group.state is State.EMPTY:
                since = since if group.state_since_ms < 0 else group.state_since_ms
            elif not (group.state is State.STABLE and group.uses_consumer_protocol):
                return False  # it may be reading the topic; its subscriptions are not known now
        if committed.expire_timestamp >= 0:
            return self._book.moment.wall_ms >= committed.expire_timestamp
        return self._book.moment.wall_ms - since >= self._book.settings.offsets_retention_ms
