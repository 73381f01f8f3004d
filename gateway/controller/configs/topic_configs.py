"""Checks the configuration of a topic, and resolves its effective values (``KafkaConfigSchema``).

It knows no request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gateway.base.java.text import parse_integer, trim
from gateway.controller.configs.broker_keys import BROKER_KEYS
from gateway.controller.configs.config_def import ConfigError, ConfigKey, ConfigSource, Synonym
from gateway.controller.configs.topic_keys import TOPIC_KEYS
from kwire.cluster import Image
from kwire.cluster.image import BROKER_RESOURCE

#: The dynamic keys that a broker applies: of its log cleaner and producers, and the defaults of
#: topics.
APPLIED_KEYS: Final = frozenset(
    (
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "producer.id.expiration.ms",
        *(
            synonym.name
            for key in TOPIC_KEYS.values()
            for synonym in key.synonyms
            if synonym.name in BROKER_KEYS
        ),
    )
)


class Effective(NamedTuple):
    """A configuration key of a topic, its effective value (None: null) as text, and the value's
    source.
    """

    key: ConfigKey
    value: str | None
    source: ConfigSource


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise ConfigError unless a topic may have this configuration (``LogConfig.validate``)."""
    for name in configs:
        if name not in TOPIC_KEYS:
            raise ConfigError(f"Unknown topic config name: {name}")
    # Each value is parsed by itself first, because the rule below compares parsed values.
    values = {name: TOPIC_KEYS[name].parse(value) for name, value in configs.items()}
    # The default where the topic has no value: one key alone may contradict the default of the
    # other.
    low, high = (
        values.get(name, TOPIC_KEYS[name].parse(TOPIC_KEYS[name].default or ""))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if int(low) > int(high):  # type: ignore[arg-type]
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})"
        )
    # As on a cluster without remote.log.storage.system.enable (KIP-405).
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered storage is disabled: a topic cannot be configured with remote.storage.enable "
            "here."
        )


def effective_topic_configs(
    image: Image, configs: Mapping[str, str], node_id: int
) -> Iterator[Effective]:
    """Yield every key in the order of the names, as ``node_id`` sees it.

    The value is that of the topic; else that of the broker ``node_id``, or of all brokers, under a
    synonym; else the default (``resolveEffectiveTopicConfig``).
    """
    return (effective_topic_config(image, configs, node_id, name) for name in TOPIC_KEYS)


def effective_topic_config(
    image: Image, configs: Mapping[str, str], node_id: int, name: str
) -> Effective:
    """Return the value of one key, as in :func:`effective_topic_configs`."""
    key = TOPIC_KEYS[name]
    if name in configs:
        return Effective(key, configs[name], ConfigSource.TOPIC_CONFIG)
    # Static configs of the node come after these in Kafka. Nodes of kwire have none for topics.
    return (
        _inherited(
            key,
            image.configs.get((BROKER_RESOURCE, str(node_id)), {}),
            ConfigSource.DYNAMIC_BROKER_CONFIG,
        )
        or _inherited(
            key,
            image.configs.get((BROKER_RESOURCE, ""), {}),
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        )
        or Effective(key, key.default, ConfigSource.DEFAULT_CONFIG)
    )


def _inherited(
    key: ConfigKey, configs: Mapping[str, str], source: ConfigSource
) -> Effective | None:
    # The first synonym that is set wins: log.retention.ms over log.retention.hours.
    found = next((synonym for synonym in key.synonyms if synonym.name in configs), None)
    return None if found is None else Effective(key, _converted(configs[found.name], found), source)


def _converted(value: str, synonym: Synonym) -> str:
    # log.retention.hours in ms, for example.
    return value if synonym.factor == 1 else str(parse_integer(trim(value), 64) * synonym.factor)
