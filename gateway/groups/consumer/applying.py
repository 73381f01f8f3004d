"""Applies the records of a consumer group and has them written, if limits allow what they add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.base.slices import Slices, pieces
from gateway.groups.consumer.group import ConsumerGroup
from gateway.groups.consumer.records import ConsumerRecord
from gateway.groups.coordinator_state import CoordinatorState
from gateway.groups.effects import Record
from gateway.groups.group import Group

#: Records that are encoded, or applied, between two slices.
RECORDS_PER_SLICE: Final = 20
#: Records whose memory is counted between two slices.
_COUNTED_PER_SLICE: Final = 200


class HalfAppliedError(Exception):
    """A group may have applied some of its records: what it is has to be read from the log."""


class Converted(NamedTuple):
    """The records of a group that was a classic one, and the owner of each of its members."""

    records: list[ConsumerRecord]
    owners: Mapping[str, str]


def apply(
    state: CoordinatorState,
    group: Group | None,
    kept: ConsumerGroup,
    records: list[ConsumerRecord],
    owner: str,
    converted: Converted | None = None,
) -> Slices[bool]:
    """Write the records and apply them, if limits allow what they add; else change nothing.
    ``kept`` has those of ``converted`` already.
    """
    owners: dict[bytes, str] = {}
    encoded: list[Record] = []
    for some in pieces([] if converted is None else converted.records, RECORDS_PER_SLICE):
        for record in some:
            encoded.append(record.encode())
            if converted is not None and hasattr(record.key, "member_id"):
                owners[encoded[-1][0]] = converted.owners[record.key.member_id]
        yield
    for some in pieces(records, RECORDS_PER_SLICE):
        encoded += [record.encode() for record in some]
        yield
    created = group is None
    if group is None:
        group = state.create(kept.group_id, owner)
        if group is None:
            return False
    latest = dict(encoded)
    growth, members = Counter[str](), 0
    for piece in pieces(latest.items(), _COUNTED_PER_SLICE):
        more, joined = group.ledger.growth(piece, owner, owners)
        growth.update(more)
        members += joined
        yield
    for member in group.members.values():  # of the classic group that it was
        growth[member.owner] -= member.size
        members -= 1
    if not state.has_room_for_members(group, growth, members=members):
        if created:
            state.forget_if_blank(group)
        return False
    try:
        if group.consumer is None:
            encoded[:0] = yield from state.become_consumer(group, kept)
        for some in pieces(records, RECORDS_PER_SLICE):
            for record in some:
                kept.replay(record)
            yield
        charged: dict[bytes, str] = {}
        for piece in pieces(latest.items(), _COUNTED_PER_SLICE):
            charged |= group.ledger.apply(group.charge, piece, owner, owners)
            yield
    except Exception as error:
        raise HalfAppliedError from error
    state.persist(group, encoded, charged)
    return True
