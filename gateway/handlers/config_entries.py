"""Builds the entries of DescribeConfigs: each key with its value and its sources.

The keys are those that requests set through the controller, those of the metadata log and the audit
topic, and this node's own settings, which no request can change. It knows no request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.keys import KEYS
from gateway.config.values import Key
from gateway.controller.configs.broker_keys import BROKER_KEYS, LISTENER_KEYS
from gateway.controller.configs.config_def import ConfigKey, ConfigSource, ConfigType
from gateway.controller.configs.topic_configs import (
    APPLIED_KEYS,
    Effective,
    effective_topic_configs,
)
from gateway.handlers.topic_configs import TOPIC_CONFIGS, audit_topic_configs, view_topic_configs
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kwire.records.redact import broker_config, is_secret_config

if TYPE_CHECKING:
    from kwire.cluster.image import Image

#: (key, value, source).
_Origin = tuple[str, str | None, ConfigSource]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key. ``origins`` are all sources that have a value for it, the effective one first."""

    name: str
    type: ConfigType
    value: str | None
    source: ConfigSource
    origins: tuple[_Origin, ...] = ()
    read_only: bool = False
    help: str = ""
    is_sensitive: bool = False


def of_metadata_log() -> Iterator[Entry]:
    """Yield the settings of the metadata log, under the names of topic configs."""
    for name, (kind, value) in TOPIC_CONFIGS.items():
        yield _fixed(name, kind, value, value)


def of_view_topic(name: str) -> Iterator[Entry]:
    """Yield the settings of a view topic, under the names of topic configs."""
    for key, kind, value, default in view_topic_configs(name):
        yield _fixed(key, kind, value, default)


def of_audit_topic(config: Any) -> Iterator[Entry]:
    """Yield the settings of this node's audit log, under the names of topic configs."""
    for name, kind, value, default in audit_topic_configs(config):
        yield _fixed(name, kind, value, default)


def of_node(config: Any, image: Image | None, node_id: int) -> Iterator[Entry]:
    """Yield this node's settings, the dynamic configs that the log has for it, and the defaults of
    those that a broker applies.
    """
    for key in KEYS.values():
        yield _fixed(
            key.name,
            _type(key),
            _text(getattr(config, key.attribute)),
            _text(key.default),
            _documentation(key),
        )
    if image is not None:
        own = image.configs.get((BROKER_RESOURCE, str(node_id)), {})
        shared = image.configs.get((BROKER_RESOURCE, ""), {})
        applied = APPLIED_KEYS if config.is_broker else frozenset[str]()
        for name in sorted((own.keys() | shared.keys() | applied) - KEYS.keys()):
            found = _dynamic(name, own, ConfigSource.DYNAMIC_BROKER_CONFIG)
            found += _dynamic(name, shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            if name in applied and (default := BROKER_KEYS[name].default) is not None:
                found += ((name, default, ConfigSource.DEFAULT_CONFIG),)
            yield _of_broker(name, found)


def of_all_brokers(image: Image | None) -> Iterator[Entry]:
    """Yield the dynamic defaults of all brokers; none without a controller."""
    configs = {} if image is None else image.configs.get((BROKER_RESOURCE, ""), {})
    for name, value in sorted(configs.items()):
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        yield _of_broker(name, ((name, value, source),))


def of_topic(name: str, image: Image, node_id: int) -> Iterator[Entry]:
    """Yield every key of a topic, with its effective value on this node."""
    configs = image.configs.get((TOPIC_RESOURCE, name), {})
    for one in effective_topic_configs(image, configs, node_id):
        value = None if one.value is None else one.key.canonical(one.value)
        origins, is_secret = (
            _origins(one, value, image, node_id),
            is_secret_config(TOPIC_RESOURCE, one.key.name),
        )
        yield Entry(
            one.key.name,
            one.key.type,
            value,
            one.source,
            origins,
            help=one.key.help,
            is_sensitive=is_secret,
        )


def of_others(
    keys: Mapping[str, ConfigKey],
    configs: Mapping[str, str],
    source: ConfigSource,
    resource_type: int,
) -> Iterator[Entry]:
    """Yield every key of a group or a client metrics subscription; values set for it have
    ``source``.
    """
    for name, key in keys.items():
        defaults = tuple(
            (one.name, one.default, ConfigSource.DEFAULT_CONFIG) for one in key.synonyms
        )
        if name in configs:
            value, is_secret = key.canonical(configs[name]), is_secret_config(resource_type, name)
            origins = ((name, value, source), *defaults)
            yield Entry(
                name, key.type, value, source, origins, help=key.help, is_sensitive=is_secret
            )
        else:
            yield Entry(
                name, key.type, key.default, ConfigSource.DEFAULT_CONFIG, defaults, help=key.help
            )


def _origins(one: Effective, value: str | None, image: Image, node_id: int) -> tuple[_Origin, ...]:
    """List sources as a Kafka broker does: the topic's own value, then those of the broker's
    keys.
    """
    own = ((one.key.name, value, one.source),) if one.source is ConfigSource.TOPIC_CONFIG else ()
    of_brokers: list[_Origin] = []
    for resource, source in (
        (str(node_id), ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ):
        configs = image.configs.get((BROKER_RESOURCE, resource), {})
        of_brokers += [
            (key.name, configs[key.name], source) for key in one.key.synonyms if key.name in configs
        ]
    of_brokers += [
        (key.name, key.default, ConfigSource.DEFAULT_CONFIG)
        for key in one.key.synonyms
        if key.default is not None
    ]
    # Kafka drops all entries before the first one of the primary synonym.
    while of_brokers and of_brokers[0][0] != one.key.synonyms[0].name:
        of_brokers.pop(0)
    return (*own, *of_brokers)


def _dynamic(name: str, configs: Mapping[str, str], source: ConfigSource) -> tuple[_Origin, ...]:
    return ((name, configs[name], source),) if name in configs else ()


def _of_broker(name: str, origins: tuple[_Origin, ...]) -> Entry:
    """Return the entry of a broker config, with its values. A key unknown to Kafka (a plug-in's) is
    sensitive.
    """
    _, value, source = origins[0] if origins else (name, None, ConfigSource.DEFAULT_CONFIG)
    is_secret = is_secret_config(BROKER_RESOURCE, name)
    return Entry(
        name,
        _type_of_broker_config(name, is_secret),
        value,
        source,
        origins,
        is_sensitive=is_secret,
    )


def _type_of_broker_config(name: str, is_secret: bool) -> ConfigType:
    base = broker_config(name)
    if base in BROKER_KEYS:
        return BROKER_KEYS[base].type
    if base in LISTENER_KEYS:
        return ConfigType.PASSWORD if is_secret else ConfigType.STRING
    return ConfigType.UNKNOWN


def _fixed(
    name: str, kind: ConfigType, value: str | None, default: str | None, help_: str = ""
) -> Entry:
    origins: list[_Origin] = [(name, default, ConfigSource.DEFAULT_CONFIG)]
    if value != default:
        origins.insert(0, (name, value, ConfigSource.STATIC_BROKER_CONFIG))
    return Entry(name, kind, value, origins[0][2], tuple(origins), read_only=True, help=help_)


def _type(key: Key) -> ConfigType:
    match key.default:
        case bool():
            return ConfigType.BOOLEAN
        case int():
            return ConfigType.INT
        case tuple() | Mapping():
            return ConfigType.LIST
        case _:
            return ConfigType.STRING


def _text(value: Any) -> str | None:
    """Return the value as it is written in a properties file."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(str(one) for one in value)
        case Mapping():
            return ",".join(f"{name}:{one}" for name, one in value.items())
        case _:
            return str(value)


def _documentation(key: Key) -> str:
    return f"{key.help} ({key.unit})" if key.unit else key.help
