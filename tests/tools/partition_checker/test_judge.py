"""The judge of replicated partitions names each kind of wrong read and of unequal replicas."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tools.partition_checker.judge import (
    FreshRead,
    LoggedBatch,
    Seen,
    reading_faults,
    replica_faults,
    stale_faults,
)

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
        ([], "3 and 0 batches, and differ from number 0 on"),
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


_READ = FreshRead("t-0", 7, "v", leader=2, end=8, found="v")


@pytest.mark.parametrize("read", [_READ, _READ._replace(end=90), _READ._replace(found=None)])
def test_read_that_finds_what_was_acknowledged_or_nothing_yet_has_no_fault(read: FreshRead) -> None:
    assert not list(stale_faults(read, {1, 3}))


def test_leader_that_ends_before_what_was_acknowledged_gives_a_stale_read() -> None:
    [said] = stale_faults(_READ._replace(end=7, found=None), {1, 3})
    assert (
        said
        == "t-0: offset 7 was acknowledged, and leader 2 said that the log ends at 7: a stale read"
    )


def test_broker_that_may_not_know_that_it_is_deposed_may_answer_from_before() -> None:
    assert not list(stale_faults(_READ._replace(end=7, found=None), {2}))


def test_other_record_at_an_acknowledged_offset_is_a_fault_of_any_leader() -> None:
    [said] = stale_faults(_READ._replace(found="x"), {2})
    assert said.endswith("had x there, not v")
