"""Finds the entities that a record is about to change in an image, dependent ones included. It
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kwire.cluster import Image
from kwire.cluster.image import TOPIC_RESOURCE
from kwire.message import Message
from kwire.spark.table.kinds import BY_ENTITY, Key, Kind

#: An entity: its kind, and its key among those of its kind.
Place = tuple[Kind, Key]
_Entities = Callable[[Image, Any], Iterator[tuple[str, Key]]]

#: Record types that say a part of what an entity is.
PATCHES = frozenset(
    (
        "PARTITION_CHANGE_RECORD",
        "BROKER_REGISTRATION_CHANGE_RECORD",
        "FENCE_BROKER_RECORD",
        "UNFENCE_BROKER_RECORD",
        "CLEAR_ELR_RECORD",
    )
)


def touched(image: Image, record: Message) -> list[Place]:
    """The entities that ``record`` sets, patches or deletes if it is applied to ``image``; none for
    one that changes nothing.
    """
    entities = _TOUCHED.get(record.NAME)
    return (
        []
        if entities is None
        else [(BY_ENTITY[entity], key) for entity, key in entities(image, record)]
    )


def topic_of(image: Image, place: Place) -> str | None:
    """The name of the topic that an entity belongs to, as of now; None if it belongs to no topic,
    or the topic does not exist.
    """
    kind, key = place
    if kind.entity in ("topic", "partition"):
        return image.topics.get(key[0])
    return str(key[1]) if kind.entity == "config" and key[0] == TOPIC_RESOURCE else None


def _remove_topic(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    """Return the topic with all its dependent entities."""
    topic_id = record.topic_id
    for index in sorted(image.partitions.get(topic_id, ())):
        yield "partition", (topic_id, index)
    name = image.topics.get(topic_id)
    for config in sorted(image.configs.get((TOPIC_RESOURCE, name or ""), ())):
        yield "config", (TOPIC_RESOURCE, name, config)
    yield "topic", (topic_id,)


def _clear_elr(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    named = image.topic_ids.get(record.topic_name)
    for topic_id in (
        image.partitions if not record.topic_name else [named] if named is not None else []
    ):
        for index, partition in image.partitions[topic_id].items():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                yield "partition", (topic_id, index)


def _quota(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    yield (
        "quota",
        (
            tuple(sorted({one.entity_type: one.entity_name for one in record.entity}.items())),
            record.key,
        ),
    )


def _one(entity: str, *attributes: str) -> _Entities:
    def entities(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
        yield entity, tuple(getattr(record, name) for name in attributes)

    return entities


_TOUCHED: dict[str, _Entities] = {
    "AccessControlEntryRecord": _one("acl", "id"),
    "BrokerRegistrationChangeRecord": _one("broker", "broker_id"),
    "ClearElrRecord": _clear_elr,
    "ClientQuotaRecord": _quota,
    "ConfigRecord": _one("config", "resource_type", "resource_name", "name"),
    "DelegationTokenRecord": _one("token", "token_id"),
    "FeatureLevelRecord": _one("feature", "name"),
    "FenceBrokerRecord": _one("broker", "id"),
    "PartitionChangeRecord": _one("partition", "topic_id", "partition_id"),
    "PartitionRecord": _one("partition", "topic_id", "partition_id"),
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
