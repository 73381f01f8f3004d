"""Names the metadata partition, and a position in its log (``OffsetAndEpoch``). Holds no rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The one partition of the metadata topic.
PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Position:
    """Where a log ends: the offset to be fetched next, and the epoch of the record before it."""

    offset: int
    epoch: int
