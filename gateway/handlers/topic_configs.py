"""The configuration of the metadata log, under the names that topics have it by. It knows no request.

The values are Kafka's defaults for a topic, but for those that ``KafkaRaftLog`` sets for the metadata log itself:
batches up to 8 MiB, and no retention of its own, because snapshots decide what is deleted.
"""

from __future__ import annotations

from typing import Final

from gateway.controller.config_keys import ConfigType
from gateway.controller.topic_config_keys import TOPIC_KEYS

_OF_METADATA_LOG: Final = {"max.message.bytes": "8388608", "retention.ms": "-1"}

#: Name -> (type, value).
TOPIC_CONFIGS: Final[dict[str, tuple[ConfigType, str]]] = {
    name: (key.type, _OF_METADATA_LOG.get(name, key.default or "")) for name, key in TOPIC_KEYS.items()
}
