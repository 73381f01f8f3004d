"""Reads the broker configuration of the log cleaner (``CleanerConfig``): dynamic values, or
Kafka's defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gateway.server.broker.broker_config import broker_number

if TYPE_CHECKING:
    from kwire.cluster.image import Image


class CleanerSettings(NamedTuple):
    """How often the cleaner looks for work, ms, and the memory for the keys of one log."""

    backoff_ms: int
    dedupe_buffer_bytes: int


def cleaner_settings(image: Image, node_id: int) -> CleanerSettings:
    """Return the settings of a node."""
    return CleanerSettings(
        broker_number(image, node_id, "log.cleaner.backoff.ms"),
        broker_number(image, node_id, "log.cleaner.dedupe.buffer.size"),
    )
