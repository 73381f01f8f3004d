"""The names of changed topics: those of each commit, as far back as they are remembered."""

from __future__ import annotations

import pytest

from kwire.cluster import Delta, Image, apply
from kwire.cluster.topic_changes import TopicChanges
from kwire.message import Message
from kwire.messages.config_record import ConfigRecord
from kwire.messages.partition_change_record import PartitionChangeRecord
from kwire.messages.partition_record import PartitionRecord
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord
from kwire.uuid import Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def commit(image: Image, *records: Message) -> None:
    delta = Delta(image)
    for record in records:
        apply(delta.image, record)
    delta.commit()


def test_a_commit_adds_the_topics_that_it_creates_changes_and_deletes() -> None:
    image = Image()
    changes = image.topic_changes
    partition = PartitionRecord(topic_id=A, replicas=[1], isr=[1], leader=1)
    commit(image, TopicRecord(name="a", topic_id=A), partition)
    commit(image, TopicRecord(name="b", topic_id=B))
    commit(image, PartitionChangeRecord(topic_id=A, leader=1))
    commit(image, RemoveTopicRecord(topic_id=A), TopicRecord(name="a", topic_id=Uuid(b"c" * 16)))
    commit(image, RemoveTopicRecord(topic_id=B))
    assert changes.number == 5
    steps = [changes.since(number) for number in range(6)]
    assert steps == [
        ["b", "a", "a", "b", "a"], ["b", "a", "a", "b"], ["b", "a", "a"], ["b", "a"], ["b"], [],
    ]  # fmt: skip


def test_a_commit_of_other_changes_adds_none() -> None:
    image = Image()
    commit(image, TopicRecord(name="a", topic_id=A))
    commit(image, ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"))
    commit(image)
    assert image.topic_changes.number == 1


def test_old_changes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.cluster.topic_changes._NAMES_MAX", 5)
    changes = TopicChanges()
    for number in range(4):
        changes.add([f"{number}-0", f"{number}-1"])
    assert changes.since(2) == ["3-0", "3-1", "2-0", "2-1"]
    assert changes.since(1) is changes.since(0) is None
    changes.add(str(number) for number in range(100))
    assert changes.since(4) == [str(number) for number in range(100)]
    assert changes.since(3) is None
