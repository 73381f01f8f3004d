"""Defines the kinds of entities in the tables: their place in an image, their columns, and their
record.

Columns have the names of ``kwire state``; keys are those of ``kwire.spark.decode`` if it has one
for each row. It knows no offsets and no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from kwire.cluster import Image
from kwire.cluster.entities.nodes import broker_fields, controller_fields
from kwire.cluster.entities.security import acl_fields, mechanism_name, token_fields
from kwire.message import Message
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.producer_ids_record import ProducerIdsRecord
from kwire.messages.topic_record import TopicRecord
from kwire.spark.entities import DEFAULT, part
from kwire.spark.table.seen import Fields, Seen, shown, uuid_text

#: Identifies an entity within its kind, in the terms of an image.
Key = tuple[Any, ...]

#: Of times; records have them in ms.
TIME: Final = pa.timestamp("us", tz="UTC")
_TEXT, _TEXTS, _INTS, _MAP = (
    pa.string(),
    pa.list_(pa.string()),
    pa.list_(pa.int32()),
    pa.map_(pa.string(), pa.string()),
)
_LISTENERS = pa.list_(
    pa.struct(
        [
            ("listenerName", _TEXT),
            ("securityProtocol", _TEXT),
            ("host", _TEXT),
            ("port", pa.int32()),
        ]
    )
)


@dataclass(frozen=True)
class Kind:
    """One kind of entity.

    ``record`` gives the record that a snapshot would hold of one (None if it does not exist),
    ``fields`` its columns from that and ``key`` its key, ``keys`` all keys in an image, and
    ``text`` a key as text for people.
    """

    entity: str
    table: str
    columns: dict[str, pa.DataType]
    keys: Callable[[Image], Iterator[Key]]
    record: Callable[[Image, Key], Message | None]
    fields: Callable[[Image, Any], Fields]
    key: Callable[[Any], Key]
    text: Callable[[Key], str]
    #: The record has every column but the name of its topic.
    whole: bool = False

    def seen(self, image: Image, key: Key) -> Seen | None:
        """The entity ``key`` as it is now, to be shown later; None where it does not exist."""
        record = self.record(image, key)
        return record if record is None or self.whole else self.fields(image, record)


# --- topics and partitions
# --------------------------------------------------------------------------------------------


def _topic(image: Image, key: Key) -> Message | None:
    name = image.topics.get(key[0])
    return None if name is None else TopicRecord(name=name, topic_id=key[0])


def _topic_fields(image: Image, record: Any) -> Fields:
    return {"topicId": str(record.topic_id), "name": record.name}


def _partition(image: Image, key: Key) -> Message | None:
    return image.partitions.get(key[0], {}).get(key[1])


def _partition_fields(image: Image, record: Any) -> Fields:
    return shown(record, image.topics.get(record.topic_id))


def _partition_keys(image: Image) -> Iterator[Key]:
    return (
        (topic_id, index)
        for topic_id, partitions in image.partitions.items()
        for index in partitions
    )


# --- configs, quotas, features
# ----------------------------------------------------------------------------------------


def _config(image: Image, key: Key) -> Message | None:
    kind, resource, name = key
    value = image.configs.get((kind, resource), {}).get(name)
    return (
        None
        if value is None
        else ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    )


def _config_fields(image: Image, record: Any) -> Fields:
    resource = part("resourceName", record.resource_name)
    return {
        "resourceType": part("resourceType", record.resource_type),
        "resourceName": resource,
        "name": record.name,
        "value": record.value,
    }


def _quota(image: Image, key: Key) -> Message | None:
    entity, name = key
    value = image.quotas.get(entity, {}).get(name)
    if value is None:
        return None
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=one, entity_name=who) for one, who in entity],
        key=name,
        value=value,
    )


def _quota_fields(image: Image, record: Any) -> Fields:
    entity = quota_entity((one.entity_type, one.entity_name) for one in record.entity)
    return {"entity": entity, "name": record.key, "value": record.value}


def quota_entity(parts: Any) -> str:
    """``client-id=app,user=alice``, as :func:`kwire.spark.entities.quota_key` writes it."""
    return ",".join(sorted(f"{kind}={DEFAULT if name is None else name}" for kind, name in parts))


def _feature(image: Image, key: Key) -> Message | None:
    level = image.features.get(key[0])
    return None if level is None else FeatureLevelRecord(name=key[0], feature_level=level)


def _producer_ids(image: Image, key: Key) -> Message | None:
    number = image.next_producer_id
    return (
        None
        if number < 0
        else ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=number)
    )


# --- who may do what
# --------------------------------------------------------------------------------------------------


def _scram_fields(image: Image, record: Any) -> Fields:
    return {
        "name": record.name,
        "mechanism": mechanism_name(record.mechanism),
        "iterations": record.iterations,
    }


def _held(attribute: str, whole_key: bool = False) -> Callable[[Image, Key], Message | None]:
    """Return the record that the image holds."""

    def record(image: Image, key: Key) -> Message | None:
        found: Message | None = getattr(image, attribute).get(key if whole_key else key[0])
        return found

    return record


def _keys(attribute: str) -> Callable[[Image], Iterator[Key]]:
    return lambda image: ((key,) for key in getattr(image, attribute))


def _nested_keys(attribute: str) -> Callable[[Image], Iterator[Key]]:
    """Return the keys of nested values: the configs of a resource, the quotas of an entity."""
    return lambda image: (
        (*key, name) if attribute == "configs" else (key, name)
        for key, values in getattr(image, attribute).items()
        for name in values
    )


def _first(key: Key) -> str:
    return str(key[0])


_BROKER = {
    "id": pa.int32(),
    "epoch": pa.int64(),
    "incarnationId": _TEXT,
    "listeners": _LISTENERS,
    "supportedFeatures": _MAP,
    "rack": _TEXT,
    "fenced": pa.bool_(),
    "inControlledShutdown": pa.bool_(),
    "isMigratingZkBroker": pa.bool_(),
    "directories": _TEXTS,
    "cordonedDirectories": _TEXTS,
}
_CONTROLLER = {
    "id": pa.int32(),
    "incarnationId": _TEXT,
    "zkMigrationReady": pa.bool_(),
    "listeners": _LISTENERS,
    "supportedFeatures": _MAP,
}
_PARTITION = {
    "topicId": _TEXT,
    "topic": _TEXT,
    "partition": pa.int32(),
    "replicas": _INTS,
    "directories": _TEXTS,
    "isr": _INTS,
    "removingReplicas": _INTS,
    "addingReplicas": _INTS,
    "elr": _INTS,
    "lastKnownElr": _INTS,
    "leader": pa.int32(),
    "leaderRecoveryState": _TEXT,
    "leaderEpoch": pa.int32(),
    "partitionEpoch": pa.int32(),
}
_ACL = dict.fromkeys(
    (
        "id",
        "resourceType",
        "resourceName",
        "patternType",
        "principal",
        "host",
        "operation",
        "permissionType",
    ),
    _TEXT,
)
_TOKEN = {
    "tokenId": _TEXT,
    "owner": _TEXT,
    "tokenRequester": _TEXT,
    "renewers": _TEXTS,
    "issueTimestamp": TIME,
    "maxTimestamp": TIME,
    "expiryTimestamp": TIME,
}

#: In an order in which their records can be folded: partitions behind topics.
KINDS: Final = (
    Kind(
        "feature",
        "features",
        {"name": _TEXT, "level": pa.int32()},
        _keys("features"),
        _feature,
        lambda image, r: {"name": r.name, "level": r.feature_level},
        lambda r: (r.name,),
        _first,
    ),
    Kind(
        "topic",
        "topics",
        {"topicId": _TEXT, "name": _TEXT},
        _keys("topics"),
        _topic,
        _topic_fields,
        lambda r: (r.topic_id,),
        _first,
    ),
    Kind(
        "partition",
        "partitions",
        _PARTITION,
        _partition_keys,
        _partition,
        _partition_fields,
        lambda r: (r.topic_id, r.partition_id),
        lambda key: f"{uuid_text(key[0])}:{key[1]}",
        whole=True,
    ),
    Kind(
        "config",
        "configs",
        dict.fromkeys(("resourceType", "resourceName", "name", "value"), _TEXT),
        _nested_keys("configs"),
        _config,
        _config_fields,
        lambda r: (r.resource_type, r.resource_name, r.name),
        lambda key: f"{part('resourceType', key[0])}:{part('resourceName', key[1])}:{key[2]}",
    ),
    Kind(
        "broker",
        "brokers",
        _BROKER,
        _keys("brokers"),
        _held("brokers"),
        lambda image, r: broker_fields(r),
        lambda r: (r.broker_id,),
        _first,
    ),
    Kind(
        "controller",
        "controllers",
        _CONTROLLER,
        _keys("controllers"),
        _held("controllers"),
        lambda image, r: controller_fields(r),
        lambda r: (r.controller_id,),
        _first,
    ),
    Kind(
        "acl",
        "acls",
        _ACL,
        _keys("acls"),
        _held("acls"),
        lambda image, r: {"id": str(r.id)} | acl_fields(r),
        lambda r: (r.id,),
        _first,
    ),
    Kind(
        "quota",
        "quotas",
        {"entity": _TEXT, "name": _TEXT, "value": pa.float64()},
        _nested_keys("quotas"),
        _quota,
        _quota_fields,
        lambda r: (tuple((one.entity_type, one.entity_name) for one in r.entity), r.key),
        lambda key: f"{quota_entity(key[0])}:{key[1]}",
    ),
    Kind(
        "user",
        "users",
        {"name": _TEXT, "mechanism": _TEXT, "iterations": pa.int32()},
        lambda image: iter(image.scram),
        _held("scram", whole_key=True),
        _scram_fields,
        lambda r: (r.mechanism, r.name),
        lambda key: f"{key[1]}:{mechanism_name(key[0])}",
    ),
    Kind(
        "token",
        "tokens",
        _TOKEN,
        _keys("tokens"),
        _held("tokens"),
        lambda image, r: token_fields(r),
        lambda r: (r.token_id,),
        _first,
    ),
    Kind(
        "producer_ids",
        "producer_ids",
        {"nextProducerId": pa.int64()},
        lambda image: iter([()] if image.next_producer_id >= 0 else []),
        _producer_ids,
        lambda image, r: {"nextProducerId": r.next_producer_id},
        lambda r: (),
        lambda key: "",
    ),
)
BY_ENTITY: Final = {kind.entity: kind for kind in KINDS}
