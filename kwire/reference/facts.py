"""Finds the message schemas that this package ships, by family and name. It knows nothing of
bytes.
"""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from kwire.errors import UnknownApi

#: The messages of shipped Kafka. Other families are the forms that design texts give, such as
#: ``kip/595``.
KAFKA = "kafka"
DATA_FILE = "schemas.json.xz"


@functools.cache
def families() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Every schema: family -> message name -> facts."""
    packed = files(__package__).joinpath(DATA_FILE).read_bytes()
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(lzma.decompress(packed))
    return found


def facts(name: str, family: str = KAFKA) -> Mapping[str, Any]:
    """The schema of that name. Raises UnknownApi."""
    messages = families().get(family)
    if messages is None:
        raise UnknownApi(
            f"no family of messages is named {family!r}; there are {', '.join(sorted(families()))}"
        )
    if name not in messages:
        raise UnknownApi(f"no message of {family} is named {name!r}")
    return messages[name]


def name_by_key(kind: str, key: int) -> str:
    """The ``request`` or ``response`` with that api key, the ``metadata`` record with that type
    number. Raises UnknownApi.
    """
    name = _keys().get((kind, key))
    if name is None:
        raise UnknownApi(f"no {kind} message has the number {key}")
    return name


@functools.cache
def _keys() -> Mapping[tuple[str, int], str]:
    # Tiered storage numbers its own records from 0, under the same type as the metadata log's.
    return {
        (schema["type"], schema["apiKey"]): name
        for name, schema in families()[KAFKA].items()
        if schema["type"] in ("request", "response", "metadata") and not name.startswith("Remote")
    }
