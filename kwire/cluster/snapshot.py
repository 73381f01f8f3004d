"""Writes an image as the records of its snapshot, at the versions of its metadata.version
(``MetadataImage.write``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kwire.cluster.image import Image
from kwire.message import Message
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.producer_ids_record import ProducerIdsRecord
from kwire.messages.topic_record import TopicRecord
from kwire.protocol.metadata_version import (
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    partition_record_version,
    register_broker_record_version,
)

#: Fields that a registration loses when it is written at an old version.
_BROKER_BEFORE: dict[int, dict[str, Any]] = {
    4: {},
    3: {"cordoned_log_dirs": None},
    2: {"cordoned_log_dirs": None, "log_dirs": []},
    1: {"cordoned_log_dirs": None, "log_dirs": [], "is_migrating_zk_broker": False},
    0: {
        "cordoned_log_dirs": None,
        "log_dirs": [],
        "is_migrating_zk_broker": False,
        "in_controlled_shutdown": False,
    },
}

#: Fields that a partition loses when it is written at an old version.
_PARTITION_BEFORE: dict[int, dict[str, Any]] = {
    2: {},
    1: {"eligible_leader_replicas": None, "last_known_elr": None},
    0: {"eligible_leader_replicas": None, "last_known_elr": None, "directories": []},
}


def image_records(image: Image) -> Iterator[tuple[Message, int]]:
    """Yield (record, version) of the whole state, metadata.version first, kinds in Kafka's order,
    each in that of its keys.
    """
    level = image.metadata_version
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name]), 0
    for _, broker in sorted(image.brokers.items()):
        version = register_broker_version(level)
        yield broker.copy(**_BROKER_BEFORE[version]), version
    for _, controller in sorted(image.controllers.items()):
        yield controller, 0
    partition_version = partition_record_version(level)
    lost = _PARTITION_BEFORE[partition_version]
    for name, topic_id in sorted(image.topic_ids.items()):
        yield TopicRecord(name=name, topic_id=topic_id), 0
        for _, partition in sorted(image.partitions[topic_id].items()):
            # Most partitions have no such field, and there may be a million of them.
            if any(getattr(partition, field) for field in lost):
                partition = partition.copy(**lost)
            yield partition, partition_version
    for (kind, resource), configs in sorted(image.configs.items()):
        for name, value in sorted(configs.items()):
            yield (
                ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value),
                0,
            )
    for entity, quotas in sorted(image.quotas.items(), key=repr):
        names = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in sorted(quotas.items()):
            yield ClientQuotaRecord(entity=names, key=key, value=quota), 0
    if image.next_producer_id >= 0:
        yield (
            ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
            ),
            0,
        )
    yield from _security(image)


def _security(image: Image) -> Iterator[tuple[Message, int]]:
    for _, acl in sorted(image.acls.items()):
        yield acl, 0
    for _, credential in sorted(image.scram.items()):
        yield credential, 0
    for _, token in sorted(image.tokens.items()):
        yield token, 0


def register_broker_version(level: int) -> int:
    """Return RegisterBrokerRecord's version at a metadata.version; 0 at those before Kafka 4."""
    return register_broker_record_version(level) if level >= MINIMUM_METADATA_VERSION else 0
