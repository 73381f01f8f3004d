"""Makes a field of the configuration from a key: default, help, unit and range.

``gateway.config.config`` reads all of it from the field's metadata; parsing is by the field's type
(``gateway.config.values``).
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


def key(
    default: Any,
    help: str,
    *,
    unit: str = "",
    at_least: int = 0,
    at_most: int = INT_MAX,
    **more: Any,
) -> Any:
    """A dataclass field for a key. ``default`` may be a function that makes it.

    ``help`` is the text of ``--help``. ``more``: ``choices``, the texts that are allowed, and
    ``aliases``, other names of the key.
    """
    metadata = {"help": help, "unit": unit, "at_least": at_least, "at_most": at_most, **more}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)
