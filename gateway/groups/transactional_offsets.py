"""Commits offsets in transactions: they are pending until the marker of the transaction is in the
log (KIP-98; ``OffsetMetadataManager.commitTransactionalOffset``, ``replayEndTransactionMarker``).

Whether the transaction has the group's partition is the transaction coordinator's to check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.base.slices import Slices, pieces
from gateway.groups.consumer.commits import partitions_fault
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import PendingRequest, Record
from gateway.groups.events import (
    CommitResult,
    Committed,
    CompleteTransaction,
    TopicPartition,
    TransactionCompleted,
    TxnOffsetCommit,
)
from gateway.groups.group import Group
from gateway.groups.pending_offsets import PendingRecord
from gateway.groups.records import offset_record, read_record
from kwire.protocol import ErrorCode

#: Offsets that become committed between two slices: less than 1 ms.
_OFFSETS_PER_SLICE: Final = 200


class TransactionalOffsets:
    """Handles the pending offsets in ``state``."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def restore(self, pending: Iterable[PendingRecord]) -> None:
        """Restore what is pending from the log. Raises DecodeError."""
        for one in pending:
            item = read_record(one.key, one.value)
            # A transaction writes offsets alone; Kafka replays nothing else of one.
            if not isinstance(item, tuple):
                continue
            group_id, where, committed = item
            group = self._state.groups.get(group_id)
            if group is None:
                group = self._state.groups[group_id] = Group(
                    group_id, self._state.usage, self._state.moment.wall_ms, one.owner
                )
            self._state.pending.add(
                group,
                where,
                one.producer_id,
                committed._replace(owner=one.owner),
                is_superseded=one.is_superseded,
            )

    def commit(self, asked: PendingRequest, event: TxnOffsetCommit) -> Slices[None]:
        """Write the offsets in a batch of the transaction."""
        group = self._state.groups.get(event.group_id)
        if group is None and event.generation >= 0:
            self._state.answer(asked, event.failed(ErrorCode.ILLEGAL_GENERATION))
            return
        if group is None:
            group = self._state.create(event.group_id, event.owner)
        if group is None or not (yield from self._has_room(group, event)):
            self._state.answer(asked, event.failed(ErrorCode.POLICY_VIOLATION))
            if group is not None:
                self._state.forget_if_blank(group)
            return
        fault = self._fault(group, event)
        if fault is not ErrorCode.NONE:
            self._state.answer(asked, event.failed(fault))
            return
        yield from self._keep(asked, event, group)

    def _fault(self, group: Group, event: TxnOffsetCommit) -> ErrorCode:
        fault = _fault(group, event)
        if fault is not ErrorCode.NONE or group.consumer is None or event.generation < 0:
            return fault
        longest, topics = self._state.settings.offset_metadata_max, self._state.topics
        taken = (one for one in event.offsets if len(one.metadata) <= longest)
        fault = partitions_fault(group.consumer, event.member_id, event.generation, taken, topics)
        return ErrorCode.ILLEGAL_GENERATION if fault is ErrorCode.STALE_MEMBER_EPOCH else fault

    def _has_room(self, group: Group, event: TxnOffsetCommit) -> Slices[bool]:
        """True if limits allow the offsets beside those that they will replace."""
        growth = 0
        for wanted in event.offsets:
            where = wanted.topic, wanted.partition
            before = self._state.pending.get(group.group_id, where, event.producer_id)
            growth += group.offset_size(where, wanted.metadata)
            growth -= 0 if before is None else group.offset_size(where, before.metadata)
            yield
        return self._state.has_room_for_offsets(group, event.owner, growth, growth)

    def _keep(self, asked: PendingRequest, event: TxnOffsetCommit, group: Group) -> Slices[None]:
        wall_ms = self._state.moment.wall_ms
        kept: list[tuple[TopicPartition, Committed]] = []
        records: list[Record] = []
        errors = []
        for wanted in event.offsets:
            if len(wanted.metadata) > self._state.settings.offset_metadata_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            where = (wanted.topic, wanted.partition)
            committed = Committed(
                wanted.offset, wanted.leader_epoch, wanted.metadata, wall_ms, -1, event.owner
            )
            records.append(offset_record(group.group_id, where, committed))
            kept.append((where, committed))
            errors.append(ErrorCode.NONE)
            yield
        for some in pieces(kept, _OFFSETS_PER_SLICE):
            for where, committed in some:
                self._state.pending.add(group, where, event.producer_id, committed)
            yield
        owners = dict.fromkeys((key for key, _ in records), event.owner) if event.owner else {}
        producer = event.producer_id, event.producer_epoch
        self._state.persist(group, records, owners, producer=producer)
        self._state.answer(asked, CommitResult(errors=errors), group)
        self._state.forget_if_blank(group)

    def complete(self, asked: PendingRequest, event: CompleteTransaction) -> Slices[None]:
        """The marker of a producer's transaction is in the log: its offsets count, or are
        dropped.
        """
        pending = self._state.pending
        for some in pieces(pending.take(event.producer_id, self._state.groups), _OFFSETS_PER_SLICE):
            for group, where, found in some:
                if event.committed and not found.is_superseded:
                    group.commit(where, found.committed)
                    pending.committed_since(group.group_id, where, found.order)
            yield
        self._state.answer(asked, TransactionCompleted())


def _fault(group: Group, event: TxnOffsetCommit) -> ErrorCode:
    """The error of a commit in a transaction (``validateOffsetCommit`` with ``isTransactional``):
    clients that name no member may commit, and the rebalance of a classic group is no obstacle.
    """
    fault = group.commit_fault(event.member_id, event.instance_id, event.generation)
    names_member = event.generation >= 0 or event.member_id or event.instance_id is not None
    if not names_member or (group.consumer is None and fault is ErrorCode.REBALANCE_IN_PROGRESS):
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if fault is ErrorCode.STALE_MEMBER_EPOCH else fault
