"""Finds the entities that a record is about to change in an image, dependent ones included. It
changes nothing.

An entity is named by its kind and by its key among those of its kind, in the terms of the image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kwire.cluster.image import TOPIC_RESOURCE, Image
from kwire.message import Message

#: Identifies an entity within its kind.
Key = tuple[Any, ...]
_Entities = Callable[[Image, Any], Iterator[tuple[str, Key]]]


def touched(image: Image, record: Message) -> Iterator[tuple[str, Key]]:
    """Yield (kind, key) of each entity that ``record`` sets, patches or deletes if it is applied to
    ``image``; none for a record that changes nothing.

    The order depends on the state alone, and not on the records that led to it.
    """
    entities = _TOUCHED.get(record.NAME)
    return iter(()) if entities is None else entities(image, record)


def _remove_topic(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    """Yield the topic with all its dependent entities."""
    topic_id = record.topic_id
    for index in sorted(image.partitions.get(topic_id, ())):
        yield "partition", (topic_id, index)
    name = image.topics.get(topic_id)
    for config in sorted(image.configs.get((TOPIC_RESOURCE, name or ""), ())):
        yield "config", (TOPIC_RESOURCE, name, config)
    yield "topic", (topic_id,)


def _clear_elr(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    named = image.topic_ids.get(record.topic_name)
    all_topics = sorted(image.partitions) if not record.topic_name else []
    for topic_id in all_topics if named is None else [named]:
        for index, partition in sorted(image.partitions[topic_id].items()):
            if partition.eligible_leader_replicas or partition.last_known_elr:
                yield "partition", (topic_id, index)


def _quota(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    entity = tuple(sorted({one.entity_type: one.entity_name for one in record.entity}.items()))
    yield "quota", (entity, record.key)


def _one(entity: str, *attributes: str) -> _Entities:
    def entities(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
        yield entity, tuple(getattr(record, name) for name in attributes)

    return entities


def _partition(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    # Written out: nearly every record of a busy log comes by here.
    yield "partition", (record.topic_id, record.partition_id)


_TOUCHED: Final[dict[str, _Entities]] = {
    "AccessControlEntryRecord": _one("acl", "id"),
    "BrokerRegistrationChangeRecord": _one("broker", "broker_id"),
    "ClearElrRecord": _clear_elr,
    "ClientQuotaRecord": _quota,
    "ConfigRecord": _one("config", "resource_type", "resource_name", "name"),
    "DelegationTokenRecord": _one("token", "token_id"),
    "FeatureLevelRecord": _one("feature", "name"),
    "FenceBrokerRecord": _one("broker", "id"),
    "PartitionChangeRecord": _partition,
    "PartitionRecord": _partition,
    "ProducerIdsRecord": _one("producer_ids"),
    "RegisterBrokerRecord": _one("broker", "broker_id"),
    "RegisterControllerRecord": _one("controller", "controller_id"),
    "RemoveAccessControlEntryRecord": _one("acl", "id"),
    "RemoveDelegationTokenRecord": _one("token", "token_id"),
    "RemoveTopicRecord": _remove_topic,
    "RemoveUserScramCredentialRecord": _one("user", "mechanism", "name"),
    "TopicRecord": _one("topic", "topic_id"),
    "UnfenceBrokerRecord": _one("broker", "id"),
    "UnregisterBrokerRecord": _one("broker", "broker_id"),
    "UnregisterControllerRecord": _one("controller", "controller_id"),
    "UserScramCredentialRecord": _one("user", "mechanism", "name"),
}
