"""The decisions of a job about a cluster, case by case."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("pyspark", reason="the spark extra is not installed")

from kwire.spark.fleet.plan import (
    Anchor,
    Condition,
    Found,
    OnGap,
    Read,
    Remembered,
    Stop,
    not_the_same,
    plan,
)

VIEWS = frozenset(["topics", "features"])
FIRST = Anchor("__cluster_metadata.features", 3, 1000)
LAST = Anchor("__cluster_metadata.topics", 90, 1900)
NEW_FIRST = Anchor("__cluster_metadata.features", 3, 7000)
ROW = Remembered("A", "eu", 0, 100, LAST, views=VIEWS)
SAME = Found("A", 0, 120, FIRST, LAST)


def decided(
    found: Found,
    by_id: Remembered | None,
    by_name: Remembered | None = None,
    on_gap: OnGap = "fail",
    views: frozenset[str] = VIEWS,
) -> Read | Stop:
    return plan("eu", found, by_id, by_name, on_gap, views)


def read(found: Found, by_id: Remembered | None, **more: object) -> Read:
    what = decided(found, by_id, **more)  # type: ignore[arg-type]
    assert isinstance(what, Read), what
    return what


def stopped(found: Found, by_id: Remembered | None, **more: object) -> Remembered:
    what = decided(found, by_id, **more)  # type: ignore[arg-type]
    assert isinstance(what, Stop), what
    return what.row


def test_cluster_that_was_never_read_is_read_from_its_beginning() -> None:
    what = read(Found("A", 8, 120, FIRST), None)
    assert (what.start, what.end) == (8, 120) and what.begins and what.anew
    assert what.row == Remembered("A", "eu", 0, None, FIRST, views=VIEWS)


def test_known_log_is_read_on_from_its_position() -> None:
    assert read(SAME, ROW) == Read(ROW, 100, 120)


def test_condition_of_a_cluster_that_goes_on_is_ok_again() -> None:
    ill = replace(ROW, condition=Condition.UNREACHABLE, message="no answer")
    assert read(SAME, ill).row == ROW


def test_renamed_cluster_goes_on_under_its_new_name() -> None:
    assert read(SAME, replace(ROW, name="europe")).row.name == "eu"


def test_first_reading_that_was_not_finished_begins_again() -> None:
    what = read(Found("A", 8, 120, FIRST, FIRST), replace(ROW, position=None, anchor=FIRST))
    assert what.start == 8 and what.begins and what.anew and what.row.generation == 0


@pytest.mark.parametrize("begin", [101, 1 << 30])
def test_log_that_begins_behind_the_position_is_a_gap(begin: int) -> None:
    found = Found("A", begin, 1 << 31, Anchor(FIRST.topic, begin, 5000))
    row = stopped(found, ROW)
    assert row.condition is Condition.GAP and "on-gap resync" in row.message
    assert replace(row, condition=Condition.OK, message="") == ROW
    what = read(found, ROW, on_gap="resync")
    assert (what.start, what.anew, what.begins, what.repeats) == (begin, True, False, True)
    assert what.row.generation == 0 and what.row.anchor == found.first


def test_log_that_begins_at_the_position_is_no_gap() -> None:
    found = Found("A", 100, 120, Anchor(FIRST.topic, 100, 5000))
    what = read(found, ROW)
    assert what.anew and what.only_if_same and what.start == 100


def test_log_without_the_known_record_is_read_if_its_snapshot_is_what_the_tables_have() -> None:
    found = Found("A", 95, 120, Anchor(FIRST.topic, 95, 5000))
    what = read(found, ROW)
    assert what.anew and what.only_if_same and not what.begins
    assert not read(found, ROW, on_gap="resync").only_if_same
    row = not_the_same(ROW)
    assert row.condition is Condition.TRUNCATED and row.anchor == LAST and row.position == 100


@pytest.mark.parametrize(
    "found",
    [
        Found("A", 0, 60, NEW_FIRST),  # shorter
        Found("A", 0, 95, FIRST),  # the known record is cut off
        Found("A", 0, 500, NEW_FIRST, Anchor(LAST.topic, 90, 9000)),  # another record is there
        Found("A", 0, 500, NEW_FIRST, None),  # none is there
        Found("A", 0, 500, NEW_FIRST, Anchor(LAST.topic, 91, 1900)),  # the next one is found
    ],
)
def test_log_that_is_another_stops_or_begins_a_generation(found: Found) -> None:
    row = stopped(found, ROW)
    assert row.condition is Condition.TRUNCATED and "on-gap resync" in row.message
    assert row.position == 100 and row.anchor == LAST
    what = read(found, ROW, on_gap="resync")
    assert what.row == Remembered("A", "eu", 1, None, found.first, views=VIEWS)
    assert what.begins and what.anew and what.start == found.begin and not what.repeats


def test_log_that_lost_records_without_content_goes_on_from_its_end() -> None:
    what = read(replace(SAME, end=95), ROW)
    assert (what.start, what.end, what.row.position) == (95, 95, 95) and not what.anew


def test_name_of_another_cluster_stops_or_ends_the_old_one() -> None:
    found = Found("B", 0, 50, NEW_FIRST)
    row = stopped(found, None, by_name=ROW)
    assert row.cluster_id == "A" and row.condition is Condition.REPLACED
    assert "was the cluster A and is now B" in row.message and row.position == 100
    what = read(found, None, by_name=ROW, on_gap="resync")
    assert what.gone == ROW and what.row.cluster_id == "B" and what.begins


def test_cluster_that_was_gone_and_is_back_begins_a_generation() -> None:
    gone = replace(ROW, condition=Condition.GONE)
    what = read(SAME, gone)
    assert what.row.generation == 1 and what.begins and what.anew


def test_view_that_was_left_out_is_read_from_the_beginning() -> None:
    what = read(SAME, ROW, views=VIEWS | {"acls"})
    assert what.start == 0 and what.anew and not what.only_if_same
    assert what.row.views == VIEWS | {"acls"}


def test_views_that_are_left_out_do_not_count_as_read() -> None:
    what = read(SAME, ROW, views=frozenset(["topics"]))
    assert what.start == 100 and what.row.views == {"topics"}
