"""Offsets of the views: where changes, snapshots and the end are, and that none meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster import view_offsets as offsets

LOG_OFFSETS = st.integers(0, offsets.LOG_OFFSET_MAX - 1)
NUMBERS = st.integers(0, offsets.CHANGES_MAX - 1)


@given(LOG_OFFSETS, NUMBERS, LOG_OFFSETS, NUMBERS)
def test_change_and_entity_of_a_snapshot_never_have_one_offset(
    log_offset: int, number: int, end: int, entity: int
) -> None:
    change = offsets.at(log_offset) + number
    assert change != offsets.of_snapshot(end + 1) + entity
    assert offsets.log_offset(change) == log_offset


@given(LOG_OFFSETS, NUMBERS)
def test_snapshot_lies_behind_the_changes_before_its_end_and_below_those_behind(
    end: int, entity: int
) -> None:
    offset = offsets.of_snapshot(end + 1) + entity
    assert offsets.at(end) + offsets.CHANGES_MAX <= offset < offsets.at(end + 1)
    assert offset <= offsets.of_complete(end + 1) == offsets.at(end + 1) - 1


@given(LOG_OFFSETS, NUMBERS)
def test_reader_is_inside_a_snapshot_until_it_has_read_that_it_is_complete(
    end: int, entity: int
) -> None:
    first, behind = offsets.of_snapshot(end + 1), offsets.of_complete(end + 1) + 1
    inside = first + max(entity, 1)
    assert offsets.is_inside_snapshot(inside, 0) and offsets.is_inside_snapshot(inside, end)
    for position, start in ((inside, end + 1), (first, 0), (behind, 0), (offsets.at(end), 0)):
        assert not offsets.is_inside_snapshot(position, start)


@given(LOG_OFFSETS, NUMBERS)
def test_reader_behind_a_change_is_in_no_snapshot(log_offset: int, number: int) -> None:
    assert not offsets.is_inside_snapshot(offsets.at(log_offset) + number + 1, 0)


def test_offsets_fit_into_64_bits() -> None:
    assert offsets.at(offsets.LOG_OFFSET_MAX) == 1 << 63
    assert offsets.at(offsets.LOG_OFFSET_MAX - 1) + 2 * offsets.CHANGES_MAX - 1 == (1 << 63) - 1


def test_snapshot_of_nothing_is_at_the_beginning() -> None:
    assert offsets.of_snapshot(0) == 0
