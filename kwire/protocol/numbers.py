"""Shows numbers of Kafka under their names."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kwire.protocol.scram import ScramMechanism

#: The mechanisms' names in SASL, by number (``ScramMechanism.mechanismName``). UNKNOWN is none.
SCRAM_MECHANISMS: Final[Mapping[int, str]] = MappingProxyType(
    {one: one.name.replace("_", "-") for one in ScramMechanism if one}
)


@lru_cache(1024)
def name_of(numbers: type[enum.IntEnum], number: int) -> str | int:
    """Return Kafka's name of ``number``; the number itself where it is newer than this code."""
    try:
        return numbers(number).name
    except ValueError:
        return number
