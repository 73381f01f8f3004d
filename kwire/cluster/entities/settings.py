"""Describes the configs of resources, the quotas of clients, the levels of features, and the next
producer id (``ConfigurationsDelta``, ``ClientQuotasDelta``, ``FeaturesDelta``,
``ProducerIdsDelta``).

An entity has all configs of one resource, or all quotas of one user, client id, IP address or
combination of them. The values of configs that are not known to be public are secret. In the tree,
and there alone, all features together are one entity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kwire.cluster.entities.held import keys_of
from kwire.cluster.field_types import DOUBLE, INT32, INT64, STRING, MapOf, Nullable
from kwire.cluster.image import CONFIG_TYPES, METADATA_VERSION, Image, QuotaEntity
from kwire.cluster.kind import Fields, Key, Kind, Name, Place, RecordType, State
from kwire.message import Message
from kwire.messages.client_quota_record import ClientQuotaRecord, EntityData
from kwire.messages.config_record import ConfigRecord
from kwire.messages.feature_level_record import FeatureLevelRecord
from kwire.messages.producer_ids_record import ProducerIdsRecord
from kwire.protocol.metadata_version import RELEASES
from kwire.records.redact import REDACTED, is_secret_config

_NUMBERS: Final = {name: number for number, name in CONFIG_TYPES.items()}
_UNKNOWN_TYPE: Final = -1


def type_name(number: int) -> str:
    """Return the name of a resource type; the number of one that is newer than this code."""
    return CONFIG_TYPES.get(number, str(number))


def config_name(kind: int, resource: str) -> str:
    """``TOPIC:orders``; the defaults of all brokers have no name, and are ``BROKER``."""
    return f"{type_name(kind)}:{resource}" if resource else type_name(kind)


def shown_configs(kind: int, resource: str, configs: Mapping[str, str]) -> Fields:
    """Return the configs of a resource by name, without secrets."""
    return _config_redacted(("configs", config_name(kind, resource)), dict(sorted(configs.items())))


def _config_redacted(place: Place, fields: Fields) -> Fields:
    kind = _NUMBERS.get(place[1].partition(":")[0], _UNKNOWN_TYPE)
    return {
        name: REDACTED if is_secret_config(kind, name) else value for name, value in fields.items()
    }


def _apply_config(image: Image, record: Any) -> None:
    resource = (record.resource_type, record.resource_name)
    if record.value is not None:
        image.configs.setdefault(resource, {})[record.name] = record.value
        return
    configs = image.configs.get(resource, {})
    configs.pop(record.name, None)
    if not configs:
        image.configs.pop(resource, None)


def _find_config(image: Image, key: Key) -> State | None:
    configs = image.configs.get((key[0], key[1]))
    # A copy: the image changes the dictionary in place.
    return None if configs is None else (key[0], key[1], configs.copy())


def _config_snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    for (kind, resource), configs in sorted(image.configs.items()):
        for name, value in sorted(configs.items()):
            yield (
                ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value),
                0,
            )


def _config_name(state: State) -> Name:
    return type_name(state[0]), state[1]


def _config_fields(state: State) -> Fields:
    kind, resource = _config_name(state)
    return {"resourceType": kind, "resourceName": resource, "configs": shown_configs(*state)}


def _config_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for resource, configs in sorted(image.configs.items(), key=lambda item: config_name(*item[0])):
        yield ("configs", config_name(*resource)), dict(sorted(configs.items()))


CONFIG: Final = Kind(
    kind="config",
    records=(
        RecordType(ConfigRecord, "config", _apply_config, ("resource_type", "resource_name")),
    ),
    member="name",
    keys=lambda image: iter(sorted(image.configs)),
    find=_find_config,
    snapshot=_config_snapshot,
    view="configs",
    key_fields=("resourceType", "resourceName"),
    name=_config_name,
    fields=_config_fields,
    types={"resourceType": STRING, "resourceName": STRING, "configs": MapOf(STRING)},
    roots=(("configs",),),
    tree=_config_tree,
    redacted=_config_redacted,
)


#: The parts of a quota entity in the order of the shell's names.
_PARTS: Final = (("client-id", "clientId"), ("ip", "ip"), ("user", "user"))


def quota_entity_name(entity: QuotaEntity) -> str:
    """``clientId(app)_user(ann)``, with ``<default>`` in place of the brackets where the default
    entity is meant.

    Kafka's shell leaves a default part out, so that there two entities may have one name.
    """
    given = dict(entity)
    known = [(shown, given.pop(kind)) for kind, shown in _PARTS if kind in given]
    return "_".join(
        kind + ("<default>" if name is None else f"({_escaped(name)})")
        for kind, name in (*known, *sorted(given.items()))
    )


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _finite(value: float) -> float | str:
    """Return a value that JSON can hold and that equals itself: text for an infinity and for
    NaN.
    """
    return value if math.isfinite(value) else str(value)


def _values(quotas: dict[str, float]) -> Fields:
    return {name: _finite(value) for name, value in sorted(quotas.items())}


def _entity_of(record: Any) -> QuotaEntity:
    return tuple(sorted({one.entity_type: one.entity_name for one in record.entity}.items()))


def _apply_quota(image: Image, record: Any) -> None:
    entity = _entity_of(record)
    if not record.remove:
        image.quotas.setdefault(entity, {})[record.key] = record.value
        return
    quotas = image.quotas.get(entity, {})
    quotas.pop(record.key, None)
    if not quotas:
        image.quotas.pop(entity, None)


def _quota_touched(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
    yield "quota", (_entity_of(record), record.key)


def _find_quota(image: Image, key: Key) -> State | None:
    quotas = image.quotas.get(key[0])
    # A copy: the image changes the dictionary in place.
    return None if quotas is None else (key[0], quotas.copy())


def _quota_snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    for entity, quotas in sorted(image.quotas.items(), key=repr):
        names = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in sorted(quotas.items()):
            yield ClientQuotaRecord(entity=names, key=key, value=quota), 0


def _quota_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    for name, quotas in sorted(
        (quota_entity_name(entity), quotas) for entity, quotas in image.quotas.items()
    ):
        yield ("clientQuotas", name), _values(quotas)


QUOTA: Final = Kind(
    kind="quota",
    records=(RecordType(ClientQuotaRecord, "quota", _apply_quota, ("entity",), _quota_touched),),
    member="key",
    keys=lambda image: ((entity,) for entity in sorted(image.quotas, key=quota_entity_name)),
    find=_find_quota,
    snapshot=_quota_snapshot,
    view="quotas",
    key_fields=("entity",),
    name=lambda state: (quota_entity_name(state[0]),),
    fields=lambda state: {"entity": quota_entity_name(state[0]), "quotas": _values(state[1])},
    types={"entity": STRING, "quotas": MapOf(DOUBLE)},
    roots=(("clientQuotas",),),
    tree=_quota_tree,
)


#: Levels of metadata.version from before KRaft's first production release. ``kwire.protocol`` has
#: the later ones.
_EARLY_RELEASES: Final = ("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2")
_RELEASES: Final = dict(enumerate(_EARLY_RELEASES, 1)) | dict(RELEASES)


def release_of(level: int) -> str | None:
    """Return the release that introduced a level of metadata.version; None for a level newer than
    this code.
    """
    return _RELEASES.get(level)


def _apply_feature(image: Image, record: Any) -> None:
    if record.feature_level == 0:
        image.features.pop(record.name, None)
    else:
        image.features[record.name] = record.feature_level


def _find_feature(image: Image, key: Key) -> State | None:
    level = image.features.get(key[0])
    return None if level is None else (key[0], level)


def _feature_snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    for name in sorted(image.features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=image.features[name]), 0


def _feature_fields(state: State) -> Fields:
    name, level = state
    release = release_of(level) if name == METADATA_VERSION else None
    return {"feature": name, "level": level, "release": release}


def _feature_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    finalized = {
        f"finalized_{name}": level
        for name, level in sorted(image.features.items())
        if name != METADATA_VERSION
    }
    level = image.metadata_version
    shown = {"name": release_of(level), "level": level} if level else None
    yield ("features",), finalized | {"metadataVersion": shown}


FEATURE: Final = Kind(
    kind="feature",
    records=(RecordType(FeatureLevelRecord, "feature", _apply_feature, ("name",)),),
    keys=keys_of("features"),
    find=_find_feature,
    snapshot=_feature_snapshot,
    view="features",
    key_fields=("feature",),
    name=lambda state: (state[0],),
    fields=_feature_fields,
    types={"feature": STRING, "level": INT32, "release": Nullable(STRING)},
    roots=(("features",),),
    tree=_feature_tree,
)


def _apply_producer_ids(image: Image, record: Any) -> None:
    image.next_producer_id = record.next_producer_id


def _find_producer_ids(image: Image, key: Key) -> State | None:
    return image.next_producer_id if image.next_producer_id >= 0 else None


def _producer_ids_snapshot(image: Image) -> Iterator[tuple[Message, int]]:
    number = image.next_producer_id
    if number >= 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=number), 0


def _producer_ids_fields(number: int) -> Fields:
    return {"nextProducerId": number}


def _producer_ids_tree(image: Image) -> Iterator[tuple[Place, Fields]]:
    yield ("producerIds",), _producer_ids_fields(image.next_producer_id)


PRODUCER_IDS: Final = Kind(
    kind="producer_ids",
    records=(RecordType(ProducerIdsRecord, "producer_ids", _apply_producer_ids),),
    keys=lambda image: iter([()]),
    find=_find_producer_ids,
    snapshot=_producer_ids_snapshot,
    view=None,
    key_fields=(),
    name=lambda number: (),
    fields=_producer_ids_fields,
    types={"nextProducerId": INT64},
    roots=(("producerIds",),),
    tree=_producer_ids_tree,
)
