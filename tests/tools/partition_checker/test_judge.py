"""The judge of replicated partitions names each kind of wrong read and of unequal replicas."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tools.partition_checker.judge import LoggedBatch, Seen, reading_faults, replica_faults

_FINAL = [Seen(0, "a"), Seen(1, "b"), Seen(3, "d")]
_LOG = [LoggedBatch(0, 1, 0, 11), LoggedBatch(2, 2, 0, 12), LoggedBatch(3, 5, 2, 13)]


@dataclass(frozen=True)
class Case:
    seen: list[Seen]
    says: str


@pytest.mark.parametrize("count", [0, 1, 3])
def test_reader_that_saw_a_part_of_the_log_has_no_fault(count: int) -> None:
    assert not list(reading_faults("r", _FINAL[:count], _FINAL))


@pytest.mark.parametrize(
    "case",
    [
        Case([Seen(0, "a"), Seen(0, "a")], "offset 0 came after 0"),
        Case([Seen(1, "b"), Seen(0, "a")], "offset 0 came after 1"),
        Case([Seen(0, "a"), Seen(1, "x")], "records that are not there any more, at [1]"),
        Case([Seen(0, "a"), Seen(1, "b"), Seen(2, "c")], "not there any more, at [2]"),
        Case([Seen(0, "a"), Seen(3, "d")], "was not given 1 records, at [1]"),
    ],
)
def test_reader_that_saw_a_wrong_record_is_named(case: Case) -> None:
    [said] = reading_faults("r", case.seen, _FINAL)
    assert said.startswith("r: ") and case.says in said


def test_replicas_with_equal_logs_have_no_fault() -> None:
    assert not list(replica_faults("t-0", {1: _LOG, 2: list(_LOG), 3: list(_LOG)}))


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (_LOG[:2], "3 and 2 batches, and differ from number 2 on"),
        (
            [*_LOG[:1], LoggedBatch(2, 2, 0, 99), _LOG[2]],
            "3 and 3 batches, and differ from number 1 on",
        ),
    ],
)
def test_replica_with_another_log_is_named(log: list[LoggedBatch], says: str) -> None:
    [said] = replica_faults("t-0", {1: _LOG, 2: log})
    assert says in said and "nodes 1 and 2" in said


@pytest.mark.parametrize("wrong", [LoggedBatch(7, 8, 2, 14), LoggedBatch(6, 8, 1, 14)])
def test_log_with_a_gap_or_an_older_epoch_is_named(wrong: LoggedBatch) -> None:
    log = [*_LOG, wrong]
    said = list(replica_faults("t-0", {1: log, 2: list(log)}))
    assert [one.partition(":")[0] for one in said] == ["t-0 on node 1", "t-0 on node 2"]
