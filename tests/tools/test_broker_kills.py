"""The checks of ``tools.broker_kills`` find what they look for."""

from __future__ import annotations

from tools.broker_kills import IN_TRANSACTION, record_faults, transaction_faults

RIGHT = [(0, "3"), (1, "7"), (2, "11")]


def whole(*numbers: int) -> list[str]:
    return [f"{number}-{part}" for number in numbers for part in range(IN_TRANSACTION)]


def test_records_that_are_right_have_no_fault() -> None:
    assert list(record_faults(0, RIGHT, {0: 3, 2: 11})) == []


def test_acknowledged_record_that_is_missing_or_elsewhere_is_lost() -> None:
    assert list(record_faults(1, RIGHT, {1: 7, 5: 15})) == ["partition 1: lost at [5]"]
    assert list(record_faults(1, RIGHT, {1: 3})) == ["partition 1: lost at [1]"]
    assert list(record_faults(1, [], {0: 1})) == ["partition 1: lost at [0]"]


def test_record_that_came_twice_or_too_early_is_a_fault() -> None:
    fault = ["partition 0: a record is there twice, or out of order"]
    assert list(record_faults(0, [*RIGHT, (3, "11")], {})) == fault
    assert list(record_faults(0, [(0, "7"), (1, "3")], {})) == fault


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
