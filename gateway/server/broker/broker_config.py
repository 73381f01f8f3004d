"""Reads a number from the configuration of a broker: its own dynamic value, that of all brokers,
or Kafka's default (``DynamicBrokerConfig``). It does not read the node's file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.configs.broker_keys import BROKER_KEYS
from kwire.cluster.image import BROKER_RESOURCE

if TYPE_CHECKING:
    from kwire.cluster.image import Image


def broker_number(image: Image, node_id: int, name: str) -> int:
    """Return the value of the key ``name`` at the node."""
    key = BROKER_KEYS[name]
    for broker in (str(node_id), ""):
        text = image.configs.get((BROKER_RESOURCE, broker), {}).get(name)
        if text is not None:
            return int(key.parse(text))  # type: ignore[arg-type]
    return int(key.parse(key.default or ""))  # type: ignore[arg-type]
