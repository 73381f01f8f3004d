"""Defines the kinds of entities in the views: how each is found in an image, named and shown.

Values are those of ``kwire state`` at the same place (``kwire.cluster.tree``), with the names that
identify the entity in front. Secrets are replaced by the rule of ``kwire.records.redact``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from kwire.cluster import tree
from kwire.cluster.image import METADATA_VERSION, TOPIC_RESOURCE, Image
from kwire.cluster.touch import Key
from kwire.protocol import SCRAM_MECHANISMS

#: An entity as it was at one offset; later changes of the image do not change it.
State = Any
#: The values of the fields that identify an entity, in the order of ``Kind.key_fields``.
Name = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of entity.

    ``find`` returns the entity of a key, or None if it does not exist; ``name`` its name;
    ``fields`` its value in a view; ``keys`` all keys of an image, in an order that depends on the
    state alone. ``view`` is the view that has the entities of this kind, None if only ``changes``
    has them.
    """

    kind: str
    view: str | None
    key_fields: tuple[str, ...]
    find: Callable[[Image, Key], State | None]
    name: Callable[[State], Name]
    fields: Callable[[State], dict[str, Any]]
    keys: Callable[[Image], Iterator[Key]]


def _topic(image: Image, key: Key) -> State | None:
    name = image.topics.get(key[0])
    if name is None or image.topic_ids.get(name) != key[0]:
        return None
    partitions = image.partitions[key[0]]
    first = partitions.get(0)
    # As kafka-topics.sh has it: replicas that a reassignment adds do not count before its end.
    factor = 0 if first is None else len(first.replicas) - len(first.adding_replicas)
    # A copy: the image changes the dictionary in place.
    configs = image.configs.get((TOPIC_RESOURCE, name), {}).copy()
    return name, key[0], len(partitions), factor, configs


def _topic_fields(state: State) -> dict[str, Any]:
    name, topic_id, partitions, factor, configs = state
    return {
        "name": name,
        "id": str(topic_id),
        "partitions": partitions,
        "replicationFactor": factor,
        "configs": _shown_configs(TOPIC_RESOURCE, name, configs),
    }


def _topic_keys(image: Image) -> Iterator[Key]:
    return ((topic_id,) for _, topic_id in sorted(image.topic_ids.items()))


def _partition(image: Image, key: Key) -> State | None:
    partition = image.partitions.get(key[0], {}).get(key[1])
    return None if partition is None else (image.topics[key[0]], partition)


def _partition_keys(image: Image) -> Iterator[Key]:
    for (topic_id,) in _topic_keys(image):
        for index in sorted(image.partitions[topic_id]):
            yield topic_id, index


def _partition_fields(state: State) -> dict[str, Any]:
    topic, partition = state
    named = {
        "topic": topic,
        "topicId": str(partition.topic_id),
        "partition": partition.partition_id,
    }
    return named | tree.partition_fields(partition)


def _config(image: Image, key: Key) -> State | None:
    configs = image.configs.get((key[0], key[1]))
    # A copy: the image changes the dictionary in place.
    return None if configs is None else (key[0], key[1], configs.copy())


def _config_name(state: State) -> Name:
    kind, _, _ = tree.config_name(state[0], state[1]).partition(":")
    return kind, state[1]


def _config_fields(state: State) -> dict[str, Any]:
    kind, resource = _config_name(state)
    return {
        "resourceType": kind,
        "resourceName": resource,
        "configs": _shown_configs(*state),
    }


def _shown_configs(kind: int, resource: str, configs: Mapping[str, str]) -> dict[str, Any]:
    place = ("configs", tree.config_name(kind, resource))
    return tree.without_secrets(place, dict(sorted(configs.items())))


def _quota(image: Image, key: Key) -> State | None:
    quotas = image.quotas.get(key[0])
    return None if quotas is None else (key[0], quotas.copy())


def _quota_fields(state: State) -> dict[str, Any]:
    entity, quotas = state
    return {
        "entity": tree.quota_entity_name(entity),
        "quotas": {name: tree.finite(value) for name, value in sorted(quotas.items())},
    }


def _quota_keys(image: Image) -> Iterator[Key]:
    return ((entity,) for entity in sorted(image.quotas, key=tree.quota_entity_name))


def _feature(image: Image, key: Key) -> State | None:
    level = image.features.get(key[0])
    return None if level is None else (key[0], level)


def _feature_fields(state: State) -> dict[str, Any]:
    name, level = state
    release = tree.release_of(level) if name == METADATA_VERSION else None
    return {"feature": name, "level": level, "release": release}


def _user_name(state: State) -> Name:
    mechanism = SCRAM_MECHANISMS.get(state.mechanism, str(state.mechanism))
    return state.name, mechanism


def _user_fields(state: State) -> dict[str, Any]:
    user, mechanism = _user_name(state)
    fields = tree.without_secrets(("scram", mechanism, user), tree.scram_fields(state))
    return {"user": user, "mechanism": mechanism} | fields


def _held(attribute: str) -> Callable[[Image, Key], State | None]:
    """Return the record that the image holds. A record in an image is never changed."""
    return lambda image, key: getattr(image, attribute).get(key[0])


def _keys(attribute: str) -> Callable[[Image], Iterator[Key]]:
    return lambda image: ((key,) for key in sorted(getattr(image, attribute)))


#: In the order in which a snapshot's entities are numbered.
KINDS: Final = (
    Kind(
        "feature",
        "features",
        ("feature",),
        _feature,
        lambda state: (state[0],),
        _feature_fields,
        _keys("features"),
    ),
    Kind(
        "broker",
        "brokers",
        ("id",),
        _held("brokers"),
        lambda record: (record.broker_id,),
        tree.broker_fields,
        _keys("brokers"),
    ),
    Kind(
        "controller",
        "controllers",
        ("id",),
        _held("controllers"),
        lambda record: (record.controller_id,),
        tree.controller_fields,
        _keys("controllers"),
    ),
    Kind(
        "topic",
        "topics",
        ("name",),
        _topic,
        lambda state: (state[0],),
        _topic_fields,
        _topic_keys,
    ),
    Kind(
        "partition",
        "partitions",
        ("topic", "partition"),
        _partition,
        lambda state: (state[0], state[1].partition_id),
        _partition_fields,
        _partition_keys,
    ),
    Kind(
        "config",
        "configs",
        ("resourceType", "resourceName"),
        _config,
        _config_name,
        _config_fields,
        lambda image: iter(sorted(image.configs)),
    ),
    Kind(
        "quota",
        "quotas",
        ("entity",),
        _quota,
        lambda state: (tree.quota_entity_name(state[0]),),
        _quota_fields,
        _quota_keys,
    ),
    Kind(
        "producer_ids",
        None,
        (),
        lambda image, key: image.next_producer_id if image.next_producer_id >= 0 else None,
        lambda state: (),
        lambda state: {"nextProducerId": state},
        lambda image: iter([()]),
    ),
    Kind(
        "acl",
        "acls",
        ("id",),
        _held("acls"),
        lambda record: (str(record.id),),
        lambda record: {"id": str(record.id)} | tree.acl_fields(record),
        _keys("acls"),
    ),
    Kind(
        "user",
        "users",
        ("user", "mechanism"),
        lambda image, key: image.scram.get((key[0], key[1])),
        _user_name,
        _user_fields,
        lambda image: iter(sorted(image.scram)),
    ),
    Kind(
        "token",
        "tokens",
        ("tokenId",),
        _held("tokens"),
        lambda record: (record.token_id,),
        tree.token_fields,
        _keys("tokens"),
    ),
)
BY_KIND: Final[Mapping[str, Kind]] = MappingProxyType({kind.kind: kind for kind in KINDS})
