"""Applies the records of a consumer group and has them written, if limits allow what they add."""

from __future__ import annotations

from typing import Final

from gateway.base.slices import Slices, pieces
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import Record
from gateway.groups.group import Group

#: Records that are encoded, or applied, between two slices.
_RECORDS_PER_SLICE: Final = 20


class HalfAppliedError(Exception):
    """A group may have applied some of its records: what it is has to be read from the log."""


def apply(
    state: CoordinatorState,
    group: Group | None,
    kept: ConsumerGroup,
    records: list[ConsumerRecord],
    owner: str,
) -> Slices[bool]:
    """Write the records and apply them, if limits allow what they add; else change nothing."""
    encoded: list[Record] = []
    for some in pieces(records, _RECORDS_PER_SLICE):
        encoded += [record.encode() for record in some]
        yield
    created = group is None
    if group is None:
        group = state.create(kept.group_id, owner)
        if group is None:
            return False
    growth, members = group.ledger.growth(encoded, owner)
    if not state.has_room_for_members(group, growth, members=members):
        if created:
            state.forget_if_blank(group)
        return False
    if group.consumer is None:
        encoded[:0] = state.become_consumer(group, kept)
    try:
        for some in pieces(records, _RECORDS_PER_SLICE):
            for record in some:
                kept.replay(record)
            yield
    except Exception as error:
        raise HalfAppliedError from error
    state.persist(group, encoded, group.ledger.apply(group.charge, encoded, owner))
    return True
