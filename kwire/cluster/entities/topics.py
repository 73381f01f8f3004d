"""Describes topics (``TopicsDelta``). Their snapshot and their tree have their partitions, too:
each topic's with the topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kwire.cluster.entities import partitions
from kwire.cluster.entities.settings import shown_configs
from kwire.cluster.field_types import INT32, STRING, MapOf
from kwire.cluster.image import TOPIC_RESOURCE, Image
from kwire.cluster.kind import Fields, FoldError, Key, Kind, Place, RecordType, State
from kwire.message import Message
from kwire.messages.remove_topic_record import RemoveTopicRecord
from kwire.messages.topic_record import TopicRecord


def _create(image: Image, record: Any) -> None:
    # ``ReplicationControlManager.replay`` refuses both, which ends a controller of Kafka.
    if record.name in image.topic_ids:
        known = image.topic_ids[record.name]
        raise FoldError(
            f"TopicRecord of {record.name} with id {record.topic_id}, which exists with id {known}"
        )
    if record.topic_id in image.topics:
        raise FoldError(
            f"TopicRecord of {record.name} with id {record.topic_id}, which is the id of"
            f" {image.topics[record.topic_id]}"
        )
    image.topics[record.topic_id] = record.name
    image.topic_ids[record.name] = record.topic_id
    image.partitions[record.topic_id] = {}


def _remove(image: Image, record: Any) -> None:
    name = image.topics.pop(record.topic_id, None)
    if name is None:
        raise FoldError(f"RemoveTopicRecord for topic {record.topic_id}, which does not exist")
    del image.partitions[record.topic_id]
    del image.topic_ids[name]
    image.configs.pop((TOPIC_RESOURCE, name), None)


def _removed(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    """Yield the topic with all its dependent entities."""
    topic_id = record.topic_id
    for index in sorted(image.partitions.get(topic_id, ())):
        yield "partition", (topic_id, index)
    name = image.topics.get(topic_id)
    for config in sorted(image.configs.get((TOPIC_RESOURCE, name or ""), ())):
        yield "config", (TOPIC_RESOURCE, name, config)
    yield "topic", (topic_id,)


def _find(image: Image, key: Key) -> State | None:
    name = image.topics.get(key[0])
    if name is None or image.topic_ids.get(name) != key[0]:
        return None
    held = image.partitions[key[0]]
    first = held.get(0)
    # As kafka-topics.sh has it: replicas that a reassignment adds do not count before its end.
    factor = 0 if first is None else len(first.replicas) - len(first.adding_replicas)
    # A copy: the image changes the dictionary in place.
    configs = image.configs.get((TOPIC_RESOURCE, name), {}).copy()
    return name, key[0], len(held), factor, configs


def _snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    level = image.metadata_version
    for name, topic_id in sorted(image.topic_ids.items()):
        yield TopicRecord(name=name, topic_id=topic_id), 0
        yield from partitions.snapshot_of(image.partitions[topic_id], level)


def _fields(state: State) -> Fields:
    name, topic_id, count, factor, configs = state
    return {
        "name": name,
        "id": str(topic_id),
        "partitions": count,
        "replicationFactor": factor,
        "configs": shown_configs(TOPIC_RESOURCE, name, configs),
    }


def _tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for name, topic_id in sorted(image.topic_ids.items()):
        for number, partition in sorted(image.partitions[topic_id].items()):
            yield ("topics", "byName", name, str(number)), partitions.partition_fields(partition)
        yield ("topics", "byName", name), {"id": str(topic_id), "name": name}


KIND: Final = Kind(
    kind="topic",
    records=(
        RecordType(TopicRecord, "topic", _create, ("topic_id",)),
        RecordType(RemoveTopicRecord, "topic", _remove, ("topic_id",), _removed),
    ),
    keys=lambda image: ((topic_id,) for _, topic_id in sorted(image.topic_ids.items())),
    find=_find,
    snapshot=_snapshot,
    view="topics",
    key_fields=("name",),
    name=lambda state: (state[0],),
    fields=_fields,
    types={
        "name": STRING,
        "id": STRING,
        "partitions": INT32,
        "replicationFactor": INT32,
        "configs": MapOf(STRING),
    },
    version=3,
    roots=(("topics", "byId"), ("topics", "byName")),
    tree=_tree,
)
