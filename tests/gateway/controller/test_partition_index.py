"""The index of partitions stays right while it is filled, whatever changes meanwhile."""

from __future__ import annotations

import random

import pytest

from gateway.base import slices
from gateway.controller import partition_index
from gateway.controller.partition_index import PartitionIndex
from kwire.cluster import Image, apply
from kwire.message import Message
from kwire.messages.clear_elr_record import ClearElrRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import ZERO_UUID, Uuid

PARTS = ("leaderless", "imbalanced", "reassigning", "_led_by", "_in_isr", "_eligible")


def topic_id(number: int) -> Uuid:
    return Uuid(bytes([number]) * 16)


def partition(topic: int, number: int, rng: random.Random) -> PartitionRecord:
    replicas = rng.sample(range(5), 3)
    return PartitionRecord(
        topic_id=topic_id(topic),
        partition_id=number,
        replicas=replicas,
        isr=replicas[:2],
        leader=rng.choice((-1, *replicas[:2])),
        directories=[ZERO_UUID] * 3,
        eligible_leader_replicas=rng.choice((None, [replicas[2]])),
    )


def new_topic(topic: int, rng: random.Random) -> list[Message]:
    partitions = [partition(topic, n, rng) for n in range(rng.randrange(1, 6))]
    return [TopicRecord(topic_id=topic_id(topic), name=f"t{topic}"), *partitions]


def some_change(image: Image, rng: random.Random) -> list[Message]:
    if not image.partitions or rng.random() < 0.1:
        return new_topic(rng.randrange(100, 250), rng)
    chosen = rng.choice(list(image.partitions))
    number = rng.choice(list(image.partitions[chosen]))
    kind = rng.random()
    if kind < 0.15:
        return [RemoveTopicRecord(topic_id=chosen)]
    if kind < 0.2:
        name = image.topics[chosen] if rng.random() < 0.5 else ""
        return [ClearElrRecord(topic_name=name)]
    if kind < 0.3:
        added = partition(chosen[0], len(image.partitions[chosen]), rng)
        return [added]
    leader = rng.choice((-2, -1, 0, 4))
    isr = rng.choice((None, [1], [0, 4]))
    return [
        PartitionChangeRecord(topic_id=chosen, partition_id=number, leader=leader, isr=isr),
    ]


@pytest.mark.parametrize("seed", range(40))
def test_changes_while_the_index_is_filled(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_index, "_PARTITIONS_PER_SLICE", 2)
    rng = random.Random(seed)
    image = Image()
    for topic in range(10):
        for record in new_topic(topic, rng):
            apply(image, record)
    index = PartitionIndex(image)
    fillings = [index.fill(), index.fill()]
    while not index.is_filled:
        for record in some_change(image, rng):
            index.apply(record)
        next(rng.choice(fillings), None)
    expected = PartitionIndex(image)
    slices.run(expected.fill())
    for name in PARTS:
        assert getattr(index, name) == getattr(expected, name), name
