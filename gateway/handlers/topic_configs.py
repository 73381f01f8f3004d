"""Builds the topic configs of the metadata log, the audit topic and the view topics. It knows no
request.

The values are Kafka's defaults for a topic, except for those that ``KafkaRaftLog`` sets for the
metadata log (batches up to 8 MiB; no retention, because snapshots decide on deletion), and those of
the audit topic in this node's settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gateway.controller.configs.config_def import ConfigType
from gateway.controller.configs.topic_keys import TOPIC_KEYS
from gateway.ports.view_topics import CHANGES, view_topic

_OF_METADATA_LOG: Final = {"max.message.bytes": "8388608", "retention.ms": "-1"}

#: Name -> (type, value).
TOPIC_CONFIGS: Final[dict[str, tuple[ConfigType, str]]] = {
    name: (key.type, _OF_METADATA_LOG.get(name, key.default or ""))
    for name, key in TOPIC_KEYS.items()
}

#: Settings of this node for the audit topic: name of the topic's key -> attribute of ``Config``.
_OF_AUDIT_TOPIC: Final = {
    "retention.bytes": "metadata_audit_retention_bytes",
    "retention.ms": "metadata_audit_retention_ms",
    "segment.bytes": "metadata_audit_segment_bytes",
}


def audit_topic_configs(config: Any) -> Iterator[tuple[str, ConfigType, str, str]]:
    """Return (name, type, value, default) of every key."""
    for name, key in TOPIC_KEYS.items():
        default = key.default or ""
        attribute = _OF_AUDIT_TOPIC.get(name)
        yield (
            name,
            key.type,
            default if attribute is None else str(getattr(config, attribute)),
            default,
        )


def view_topic_configs(topic: str) -> Iterator[tuple[str, ConfigType, str, str]]:
    """Return (name, type, value, default) of every key of a view topic.

    Of an entity the last record counts, so the topic is compacted; a change is a record of its own.
    """
    policy = "delete" if topic == view_topic(CHANGES) else "compact"
    own = {"cleanup.policy": policy, "retention.ms": "-1"}
    for name, key in TOPIC_KEYS.items():
        default = key.default or ""
        yield name, key.type, own.get(name, default), default
