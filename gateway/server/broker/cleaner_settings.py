"""Reads the broker configuration of the log cleaner (``CleanerConfig``): dynamic values, or
Kafka's defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.controller.configs.broker_keys import BROKER_KEYS
from kwire.cluster.image import BROKER_RESOURCE

if TYPE_CHECKING:
    from kwire.cluster.image import Image


class CleanerSettings(NamedTuple):
    """How often the cleaner looks for work, ms, and the memory for the keys of one log."""

    backoff_ms: int
    dedupe_buffer_bytes: int


def cleaner_settings(image: Image, node_id: int) -> CleanerSettings:
    """Return the settings of a node."""

    def value(name: str) -> int:
        key = BROKER_KEYS[name]
        for broker in (str(node_id), ""):
            text = image.configs.get((BROKER_RESOURCE, broker), {}).get(name)
            if text is not None:
                return int(key.parse(text))  # type: ignore[arg-type]
        return int(key.parse(key.default or ""))  # type: ignore[arg-type]

    return CleanerSettings(value("log.cleaner.backoff.ms"), value("log.cleaner.dedupe.buffer.size"))
