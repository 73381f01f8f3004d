"""The checks of ``tools.broker_kills`` find what they look for."""

from __future__ import annotations

import pytest

from tools.broker_kills.judge import (
    IN_TRANSACTION,
    Kept,
    Numbered,
    Session,
    compaction_faults,
    copy_faults,
    record_faults,
    retention_faults,
    transaction_faults,
)

_FIRST, _NEXT = Session(7, 0), Session(7, 1)
RIGHT = [Numbered(0, 3, _FIRST), Numbered(1, 7, _FIRST), Numbered(2, 11, _FIRST)]


def whole(*numbers: int) -> list[str]:
    return [f"{number}-{part}" for number in numbers for part in range(IN_TRANSACTION)]


def test_records_that_are_right_have_no_fault() -> None:
    assert list(record_faults(0, RIGHT, {0: 3, 2: 11})) == []


def test_acknowledged_record_that_is_missing_or_elsewhere_is_lost() -> None:
    assert list(record_faults(1, RIGHT, {1: 7, 5: 15})) == ["partition 1: lost at [5]"]
    assert list(record_faults(1, RIGHT, {1: 3})) == ["partition 1: lost at [1]"]
    assert list(record_faults(1, [], {0: 1})) == ["partition 1: lost at [0]"]


def test_record_that_was_acknowledged_without_an_offset_has_to_be_there() -> None:
    assert list(record_faults(1, RIGHT, {}, {3, 11})) == []
    assert list(record_faults(1, RIGHT, {}, {3, 15})) == ["partition 1: lost are the records [15]"]


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([*RIGHT, Numbered(3, 11, _FIRST)], "record 11 at offset 3"),
        ([Numbered(0, 7, _FIRST), Numbered(1, 3, _FIRST)], "record 3 at offset 1"),
    ],
)
def test_record_that_came_twice_or_too_early_in_a_session_is_a_fault(
    records: list[Numbered], says: str
) -> None:
    [fault] = record_faults(0, records, {})
    assert fault.startswith(f"partition 0: {says}") and "it is there twice, or out of" in fault


def test_record_that_was_not_acknowledged_may_come_again_in_the_next_epoch() -> None:
    again = [*RIGHT, Numbered(3, 7, _NEXT), Numbered(4, 11, _NEXT), Numbered(5, 15, _NEXT)]
    assert list(record_faults(0, again, {0: 3, 3: 7, 4: 11, 5: 15})) == []


@pytest.mark.parametrize("session", [_NEXT, Session(8, 0)])
def test_acknowledged_record_that_comes_again_is_a_fault(session: Session) -> None:
    [fault] = record_faults(0, [*RIGHT, Numbered(3, 11, session)], {2: 11})
    assert "was acknowledged at offset 2: it is there twice" in fault


def test_record_that_is_first_there_behind_a_later_one_is_a_fault() -> None:
    [fault] = record_faults(0, [RIGHT[0], RIGHT[2], Numbered(3, 7, _NEXT)], {})
    assert "record 7 at offset 3" in fault and "comes after record 11" in fault


def test_epoch_that_comes_after_a_newer_one_is_a_fault() -> None:
    records = [RIGHT[0], Numbered(1, 7, _NEXT), Numbered(2, 11, _FIRST)]
    [fault] = record_faults(0, records, {})
    assert "record 11 at offset 2" in fault and "comes after epoch 1" in fault


def test_transactions_that_are_whole_or_absent_have_no_fault() -> None:
    assert list(transaction_faults(whole(1, 2), {1, 2}, {3})) == []


def test_transaction_that_is_torn_lost_doubled_or_aborted_is_a_fault() -> None:
    values = [*whole(1, 2)[:-1], *whole(4), "1-0"]
    assert list(transaction_faults(values, {1, 2, 3}, {4})) == [
        "a record of a transaction came twice",
        "transaction 2 is there in part",
        "transaction 4 was aborted, and read",
        "transaction 3 is lost",
    ]


def test_copies_that_are_the_committed_records_have_no_fault() -> None:
    assert list(copy_faults(0, ["a", "b", "c"], ["a", "b"], 2)) == []
    assert list(copy_faults(0, [], [], 0)) == []


def test_copy_that_is_missing_doubled_or_uncommitted_is_a_fault() -> None:
    for copies in (["a"], ["a", "a", "b"], ["a", "b", "c"], ["b", "a"]):
        [fault] = copy_faults(1, ["a", "b", "c"], copies, 2)
        assert fault.startswith("partition 1: ")


KEYED = {0: ("k", "1"), 1: ("l", "2"), 2: ("k", "3"), 3: ("l", None), 4: ("m", "5")}


def test_compacted_records_with_the_newest_values_have_no_fault() -> None:
    everything = [Kept(offset, *record) for offset, record in KEYED.items()]
    assert list(compaction_faults(0, everything, KEYED)) == []
    assert list(compaction_faults(0, [everything[2], everything[4]], KEYED)) == []


def test_compacted_value_that_is_lost_changed_or_back_is_a_fault() -> None:
    newest = [Kept(2, "k", "3"), Kept(4, "m", "5")]
    cases = [
        (newest[1:], "the newest value of a key is lost at [2]"),
        ([newest[0], Kept(4, "m", "6")], "not what was written at [4]"),
        ([Kept(1, "l", "2"), *newest], "deleted and there again: ['l']"),
    ]
    for kept, fault in cases:
        assert list(compaction_faults(0, kept, KEYED)) == [f"partition 0: {fault}"]


def test_newest_records_of_a_log_have_no_fault() -> None:
    assert list(retention_faults(0, [3, 4, 5], {0, 1, 2, 3, 4, 5}, [0, 2, 3], 3)) == []
    assert list(retention_faults(0, [0, 1], {0, 1}, [], 3)) == []


def test_records_that_are_deleted_too_early_or_come_back_are_faults() -> None:
    written = {0, 1, 2, 3, 4, 5}
    cases = [
        ([3, 5], [3], 2, "lost at [4]"),
        ([5], [3], 2, "1 records are left, 2 should be"),
        ([2, 3, 4, 5], [3], 2, "read before the log start 3: [2]"),
        ([3, 4, 5], [0, 3, 1], 2, "deleted records were there again: [0, 3, 1]"),
    ]
    for kept, starts, least, fault in cases:
        assert list(retention_faults(0, kept, written, starts, least)) == [f"partition 0: {fault}"]
