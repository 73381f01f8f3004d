"""Shows an image as names and values in the places where kafka-metadata-shell shows them. It knows
no wire format.

An *entity* has fields of its own: a topic, a partition, the configs of one resource, an ACL. The
tree has all entities in their places; two images are compared entity by entity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kwire.cluster.image import CONFIG_TYPES, METADATA_VERSION, Image, QuotaEntity
from kwire.protocol import (
    SCRAM_MECHANISMS,
    AclOperation,
    LeaderRecoveryState,
    PatternType,
    PermissionType,
    ResourceType,
    SecurityProtocol,
    name_of,
)
from kwire.protocol.metadata_version import RELEASES
from kwire.records.redact import REDACTED, is_secret_config, redact
from kwire.uuid import Uuid

#: Path of an entity: the names from the root down.
Place = tuple[str, ...]
#: Its fields, in the order in which Kafka prints it; every value is plain JSON.
Fields = dict[str, Any]

_CONFIG_NUMBERS: Final = {name: number for number, name in CONFIG_TYPES.items()}
_UNKNOWN_TYPE: Final = -1
#: Levels of metadata.version from before KRaft's first production release. ``kwire.protocol`` has
#: the later ones.
_EARLY_RELEASES: Final = ("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2")
_RELEASES: Final = dict(enumerate(_EARLY_RELEASES, 1)) | dict(RELEASES)
#: The parts of a quota entity in the order of the shell's names.
_QUOTA_PARTS: Final = (("client-id", "clientId"), ("ip", "ip"), ("user", "user"))


def tree(image: Image, *, show_secrets: bool = False, time: str | None = None) -> dict[str, Any]:
    """The whole image, nested. ``time`` is when its last record was written, for ``provenance``,
    where it is known.

    SCRAM keys and the values of sensitive configs are replaced unless ``show_secrets``.
    """
    root: dict[str, Any] = {
        "acls": {"byId": {}},
        "clientQuotas": {},
        "cluster": {"brokers": {}, "controllers": {}},
        "configs": {},
        "delegationToken": {},
        "features": {},
        "producerIds": {},
        "provenance": {"offset": image.next_offset - 1, "epoch": image.epoch, "time": time},
        "scram": {mechanism: {} for mechanism in SCRAM_MECHANISMS.values()},
        "topics": {"byId": {}, "byName": {}},
    }
    for place, fields in entities(image):
        node = root
        for name in place:
            node = node.setdefault(name, {})
        node.update(fields if show_secrets else without_secrets(place, fields))
    topics = root["topics"]
    for name, topic_id in sorted(image.topic_ids.items(), key=lambda item: str(item[1])):
        topics["byId"][str(topic_id)] = topics["byName"][name]
    return root


def entities(image: Image) -> Iterator[tuple[Place, Fields]]:
    """Yield every entity once (topics by name), with its secrets, in the order of the tree. Names
    do not repeat.
    """
    for acl_id, acl in _by_text(image.acls):
        yield ("acls", "byId", acl_id), acl_fields(acl)
    for quota_name, quotas in sorted(
        (quota_entity_name(entity), quotas) for entity, quotas in image.quotas.items()
    ):
        yield (
            ("clientQuotas", quota_name),
            {key: finite(value) for key, value in sorted(quotas.items())},
        )
    for broker_id, broker in sorted(image.brokers.items()):
        yield ("cluster", "brokers", str(broker_id)), broker_fields(broker)
    for controller_id, controller in sorted(image.controllers.items()):
        yield ("cluster", "controllers", str(controller_id)), controller_fields(controller)
    for (kind, resource), configs in sorted(
        image.configs.items(), key=lambda item: config_name(*item[0])
    ):
        yield ("configs", config_name(kind, resource)), dict(sorted(configs.items()))
    for token_id, token in sorted(image.tokens.items()):
        yield ("delegationToken", token_id), token_fields(token)
    yield ("features",), _features(image)
    yield ("producerIds",), {"nextProducerId": image.next_producer_id}
    for (mechanism, user), credential in sorted(image.scram.items()):
        yield (
            ("scram", str(SCRAM_MECHANISMS.get(mechanism, mechanism)), user),
            scram_fields(credential),
        )
    yield from _topics(image)


def without_secrets(place: Place, fields: Fields) -> Fields:
    """Return the fields of the entity at ``place``, or some of them, with secrets replaced."""
    if place[0] == "scram":
        return redact("USER_SCRAM_CREDENTIAL_RECORD", fields)
    if place[0] == "configs":
        kind = _CONFIG_NUMBERS.get(place[1].partition(":")[0], _UNKNOWN_TYPE)
        return {
            name: REDACTED if is_secret_config(kind, name) else value
            for name, value in fields.items()
        }
    return fields


def quota_entity_name(entity: QuotaEntity) -> str:
    """``clientId(app)_user(ann)``, with ``<default>`` in place of the brackets where the default
    entity is meant.

    Kafka's shell leaves a default part out, so that there two entities may have one name.
    """
    given = dict(entity)
    known = [(shown, given.pop(kind)) for kind, shown in _QUOTA_PARTS if kind in given]
    return "_".join(
        kind + ("<default>" if name is None else f"({_escaped(name)})")
        for kind, name in (*known, *sorted(given.items()))
    )


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


# --- kinds of entities
# ------------------------------------------------------------------------------------------------


def acl_fields(acl: Any) -> Fields:
    return {
        "resourceType": name_of(ResourceType, acl.resource_type),
        "resourceName": acl.resource_name,
        "patternType": name_of(PatternType, acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": name_of(AclOperation, acl.operation),
        "permissionType": name_of(PermissionType, acl.permission_type),
    }


def finite(value: float) -> float | str:
    """Return a value that JSON can hold and that equals itself: text for an infinity and for
    NaN.
    """
    return value if math.isfinite(value) else str(value)


def broker_fields(broker: Any) -> Fields:
    return {
        "id": broker.broker_id,
        "epoch": broker.broker_epoch,
        "incarnationId": str(broker.incarnation_id),
        "listeners": _listeners(broker.end_points),
        "supportedFeatures": _supported(broker.features),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "inControlledShutdown": broker.in_controlled_shutdown,
        "isMigratingZkBroker": broker.is_migrating_zk_broker,
        "directories": _texts(broker.log_dirs),
        "cordonedDirectories": (
            None if broker.cordoned_log_dirs is None else _texts(broker.cordoned_log_dirs)
        ),
    }


def controller_fields(controller: Any) -> Fields:
    return {
        "id": controller.controller_id,
        "incarnationId": str(controller.incarnation_id),
        "zkMigrationReady": controller.zk_migration_ready,
        "listeners": _listeners(controller.end_points),
        "supportedFeatures": _supported(controller.features),
    }


def _listeners(end_points: Iterable[Any]) -> list[Fields]:
    return [
        {
            "listenerName": one.name,
            "securityProtocol": name_of(SecurityProtocol, one.security_protocol),
            "host": one.host,
            "port": one.port,
        }
        for one in sorted(end_points, key=lambda one: one.name)
    ]


def _supported(features: Iterable[Any]) -> dict[str, str]:
    return {
        one.name: f"{one.min_supported_version}-{one.max_supported_version}"
        for one in sorted(features, key=lambda one: one.name)
    }


def config_name(kind: int, resource: str) -> str:
    """``TOPIC:orders``; the defaults of all brokers have no name, and are ``BROKER``."""
    shown = CONFIG_TYPES.get(kind, str(kind))
    return f"{shown}:{resource}" if resource else shown


def token_fields(token: Any) -> Fields:
    return {
        "tokenId": token.token_id,
        "owner": token.owner,
        "tokenRequester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestamp": token.issue_timestamp,
        "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiration_timestamp,
    }


def _features(image: Image) -> Fields:
    finalized = {
        f"finalized_{name}": level
        for name, level in sorted(image.features.items())
        if name != METADATA_VERSION
    }
    return finalized | {"metadataVersion": _metadata_version(image.metadata_version)}


def _metadata_version(level: int) -> Fields | None:
    """Return the level and the release that introduced it; without a name for a level newer than
    this code.
    """
    if not level:
        return None
    return {"name": release_of(level), "level": level}


def release_of(level: int) -> str | None:
    """Return the release that introduced a level of metadata.version; None for a level newer than
    this code.
    """
    return _RELEASES.get(level)


def scram_fields(credential: Any) -> Fields:
    return {
        "salt": credential.salt.hex(),
        "storedKey": credential.stored_key.hex(),
        "serverKey": credential.server_key.hex(),
        "iterations": credential.iterations,
    }


def _topics(image: Image) -> Iterator[tuple[Place, Fields]]:
    for name, topic_id in sorted(image.topic_ids.items()):
        for partition_id, partition in sorted(image.partitions[topic_id].items()):
            yield ("topics", "byName", name, str(partition_id)), partition_fields(partition)
        yield ("topics", "byName", name), {"id": str(topic_id), "name": name}


def partition_fields(partition: Any) -> Fields:
    return {
        "replicas": list(partition.replicas),
        "directories": _texts(partition.directories),
        "isr": list(partition.isr),
        "removingReplicas": list(partition.removing_replicas),
        "addingReplicas": list(partition.adding_replicas),
        "elr": list(partition.eligible_leader_replicas or ()),
        "lastKnownElr": list(partition.last_known_elr or ()),
        "leader": partition.leader,
        "leaderRecoveryState": recovery_state(partition.leader_recovery_state),
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
    }


def recovery_state(number: int) -> str | int:
    """Kafka's name of a leader recovery state; the number of one that is newer than this code."""
    return name_of(LeaderRecoveryState, number)


def _texts(ids: Iterable[Uuid]) -> list[str]:
    return [str(one) for one in ids]


def _by_text(things: dict[Uuid, Any]) -> list[tuple[str, Any]]:
    return sorted(((str(key), value) for key, value in things.items()), key=lambda item: item[0])
