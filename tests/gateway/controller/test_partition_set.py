"""Sets of partitions against sets of tuples."""

from __future__ import annotations

import random

from gateway.controller.partition_set import PartitionSet
from kwire.uuid import Uuid

TOPICS = [Uuid(bytes([number]) * 16) for number in range(1, 5)]


def test_random_changes_give_what_a_set_of_tuples_has() -> None:
    rng = random.Random(7)
    found, known = PartitionSet(), set[tuple[Uuid, int]]()
    for _ in range(3_000):
        key = rng.choice(TOPICS), rng.randrange(20)
        if rng.random() < 0.5:
            found.add(*key)
            known.add(key)
        else:
            found.discard(*key)
            known.discard(key)
        assert bool(found) == bool(known)
    listed = list(found)
    assert set(listed) == known and len(listed) == len(known)
    for topic_id in TOPICS:
        numbers = [number for topic, number in listed if topic == topic_id]
        assert numbers == sorted(numbers)


def test_equal_sets_have_equal_partitions_in_any_order_of_making() -> None:
    one, other = PartitionSet(), PartitionSet()
    one.add_all(TOPICS[0], [3, 1, 2])
    one.add_all(TOPICS[0], [7, 0])
    for number in (7, 0, 1, 3, 2, 3):
        other.add(TOPICS[0], number)
    assert one == other and list(one) == [(TOPICS[0], number) for number in (0, 1, 2, 3, 7)]
    other.discard(TOPICS[0], 3)
    assert one != other
    assert one != 3


def test_a_topic_without_partitions_leaves_nothing() -> None:
    chosen = PartitionSet()
    chosen.discard(TOPICS[0], 1)
    chosen.add(TOPICS[0], 1)
    chosen.discard(TOPICS[0], 2)
    chosen.discard(TOPICS[0], 1)
    assert not chosen and chosen == PartitionSet()
