"""The batches that wait for a slow disk: limits of a partition and of the broker, and who waits."""

from __future__ import annotations

from gateway.broker.produce.append_backlog import AppendBacklog


def test_partition_is_full_at_half_of_the_limit_and_others_are_not() -> None:
    whole = AppendBacklog(100)
    slow, other = whole.part(), whole.part()
    slow.add(49)
    assert not slow.is_full
    slow.add(30)
    assert slow.is_full and not other.is_full and not whole.is_full
    other.add(21)
    assert other.is_full and whole.is_full and other.bytes == 21
    slow.remove(30)
    assert not slow.is_full and not other.is_full


def test_those_that_wait_are_resumed_in_order_as_far_as_there_is_space() -> None:
    backlog, resumed = AppendBacklog(100), list[int]()
    backlog.add(60)
    backlog.add(60)
    for number in range(4):
        backlog.wait(30, lambda number=number: resumed.append(number))  # type: ignore[misc]
    backlog.remove(60)
    assert resumed == [0, 1]


def test_all_are_resumed_when_nothing_waits_for_the_disk_any_more() -> None:
    backlog, resumed = AppendBacklog(100), list[int]()
    backlog.add(100)
    for number in range(50):
        backlog.wait(90, lambda number=number: resumed.append(number))  # type: ignore[misc]
    backlog.remove(100)
    assert resumed == list(range(50))


def test_one_that_gave_up_is_not_resumed() -> None:
    whole = AppendBacklog(100)
    part, resumed = whole.part(), list[str]()
    part.add(200)
    part.wait(1, lambda: resumed.append("first"))()
    part.wait(1, lambda: resumed.append("second"))
    part.remove(200)
    assert resumed == ["second"]


def test_one_that_waits_for_the_broker_is_resumed_by_any_partition() -> None:
    whole, resumed = AppendBacklog(100), list[str]()
    slow, other = whole.part(), whole.part()
    slow.add(100)
    assert other.is_full
    other.wait(10, lambda: resumed.append("other"))
    slow.wait(10, lambda: resumed.append("slow"))
    slow.remove(40)
    assert resumed == ["other"]
    slow.remove(60)
    assert resumed == ["other", "slow"]
