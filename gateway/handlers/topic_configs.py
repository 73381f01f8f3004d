"""The configuration of the metadata log and of the audit topic, under the names that topics have it by. It knows no request.

The values are Kafka's defaults for a topic, but for those that ``KafkaRaftLog`` sets for the metadata log itself:
batches up to 8 MiB, and no retention of its own, because snapshots decide what is deleted; and for what this node's own
settings say of the audit topic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gateway.controller.config_keys import ConfigType
from gateway.controller.topic_config_keys import TOPIC_KEYS

_OF_METADATA_LOG: Final = {"max.message.bytes": "8388608", "retention.ms": "-1"}

#: Name -> (type, value).
TOPIC_CONFIGS: Final[dict[str, tuple[ConfigType, str]]] = {
    name: (key.type, _OF_METADATA_LOG.get(name, key.default or "")) for name, key in TOPIC_KEYS.items()
}

#: What of the audit topic a setting of this node says: name of the topic's key -> attribute of ``Config``.
_OF_AUDIT_TOPIC: Final = {
    "retention.bytes": "metadata_audit_retention_bytes",
    "retention.ms": "metadata_audit_retention_ms",
    "segment.bytes": "metadata_audit_segment_bytes",
}


def audit_topic_configs(config: Any) -> Iterator[tuple[str, ConfigType, str, str]]:
    """(name, type, value, default) of every key."""
    for name, key in TOPIC_KEYS.items():
        default = key.default or ""
        attribute = _OF_AUDIT_TOPIC.get(name)
        yield name, key.type, default if attribute is None else str(getattr(config, attribute)), default
