"""The reference codec of messages whose schema differed in an older release of Kafka."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from kwire.reference import Reference, reference

_OLDER = Path(__file__).resolve().parents[2] / "data"


@functools.cache
def reference_of(name: str, version: int, kafka: str) -> Reference:
    """The message at that version, as Kafka release ``kafka`` has it. Raises as ``reference``."""
    older = _OLDER / f"schemas-{kafka}" / f"{name}.json"
    return (
        Reference(json.loads(older.read_text("utf-8")), version)
        if older.is_file()
        else reference(name, version)
    )
