"""Configuration as DescribeConfigs tells it: each key with its value, and where else it could come from. Knows no request.

Of what was set by way of the controller; of the metadata log and of this node's own settings, which nobody changes so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config import KEYS, Key
from gateway.controller.broker_config_keys import BROKER_KEYS
from gateway.controller.config_keys import ConfigKey, ConfigSource, ConfigType
from gateway.controller.topic_configs import Effective, effective_topic_configs
from gateway.handlers.topic_configs import TOPIC_CONFIGS, audit_topic_configs
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    from kwire.cluster.image import Image

#: (key, value, source).
_Origin = tuple[str, str | None, ConfigSource]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key. ``origins``: every place where a value of it stands, the one that counts first."""

    name: str
    type: ConfigType
    value: str | None
    source: ConfigSource
    origins: tuple[_Origin, ...] = ()
    read_only: bool = False
    help: str = ""

    @property
    def is_sensitive(self) -> bool:
        """Is the value for nobody's eyes?"""
        return self.type is ConfigType.PASSWORD


def of_metadata_log() -> Iterator[Entry]:
    """What the log itself keeps to, under a topic's names."""
    for name, (kind, value) in TOPIC_CONFIGS.items():
        yield _fixed(name, kind, value, value)


def of_audit_topic(config: Any) -> Iterator[Entry]:
    """What this node keeps its account of changes to, under a topic's names."""
    for name, kind, value, default in audit_topic_configs(config):
        yield _fixed(name, kind, value, default)


def of_node(config: Any, image: Image | None, node_id: int) -> Iterator[Entry]:
    """What this node runs with, and what the cluster's log says of it beside."""
    for key in KEYS.values():
        yield _fixed(key.name, _type(key), _text(getattr(config, key.attribute)), _text(key.default), _documentation(key))
    if image is not None:
        own = image.configs.get((BROKER_RESOURCE, str(node_id)), {})
        shared = image.configs.get((BROKER_RESOURCE, ""), {})
        for name in sorted((own.keys() | shared.keys()) - KEYS.keys()):
            found = _dynamic(name, own, ConfigSource.DYNAMIC_BROKER_CONFIG)
            found += _dynamic(name, shared, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
            yield Entry(name, _type_of_broker_key(name), found[0][1], found[0][2], found)


def of_all_brokers(image: Image | None) -> Iterator[Entry]:
    """The defaults of all brokers that were changed while they ran; none where nobody can change them."""
    configs = {} if image is None else image.configs.get((BROKER_RESOURCE, ""), {})
    for name, value in sorted(configs.items()):
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        yield Entry(name, _type_of_broker_key(name), value, source, ((name, value, source),))


def of_topic(name: str, image: Image, node_id: int) -> Iterator[Entry]:
    """Every key of a topic, as it holds on this node."""
    configs = image.configs.get((TOPIC_RESOURCE, name), {})
    for one in effective_topic_configs(image, configs, node_id):
        value = None if one.value is None else one.key.canonical(one.value)
        yield Entry(one.key.name, one.key.type, value, one.source, _origins(one, value, image, node_id), help=one.key.help)


def of_others(keys: Mapping[str, ConfigKey], configs: Mapping[str, str], source: ConfigSource) -> Iterator[Entry]:
    """Every key of a group or of a subscription; what was set for it comes from ``source``."""
    for name, key in keys.items():
        defaults = tuple((one.name, one.default, ConfigSource.DEFAULT_CONFIG) for one in key.synonyms)
        if name in configs:
            value = key.canonical(configs[name])
            yield Entry(name, key.type, value, source, ((name, value, source), *defaults), help=key.help)
        else:
            yield Entry(name, key.type, key.default, ConfigSource.DEFAULT_CONFIG, defaults, help=key.help)


def _origins(one: Effective, value: str | None, image: Image, node_id: int) -> tuple[_Origin, ...]:
    """As a broker of Kafka lists them: the topic's own value, then those of the broker's keys, by where they were set."""
    own = ((one.key.name, value, one.source),) if one.source is ConfigSource.TOPIC_CONFIG else ()
    of_brokers: list[_Origin] = []
    for resource, source in (
        (str(node_id), ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ):
        configs = image.configs.get((BROKER_RESOURCE, resource), {})
        of_brokers += [(key.name, configs[key.name], source) for key in one.key.synonyms if key.name in configs]
    of_brokers += [(key.name, key.default, ConfigSource.DEFAULT_CONFIG) for key in one.key.synonyms if key.default is not None]
    # Kafka drops what stands before the first of the key that the topic's is named after.
    while of_brokers and of_brokers[0][0] != one.key.synonyms[0].name:
        of_brokers.pop(0)
    return (*own, *of_brokers)


def _dynamic(name: str, configs: Mapping[str, str], source: ConfigSource) -> tuple[_Origin, ...]:
    return ((name, configs[name], source),) if name in configs else ()


def _type_of_broker_key(name: str) -> ConfigType:
    known = BROKER_KEYS.get(name)
    if known is None:  # a plug-in's own, or a listener's: as secret as the most secret of them
        return ConfigType.PASSWORD if name.startswith("listener.name.") else ConfigType.STRING
    return known.type


def _fixed(name: str, kind: ConfigType, value: str | None, default: str | None, help_: str = "") -> Entry:
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
    """The value in the form in which it stands in a properties file."""
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
