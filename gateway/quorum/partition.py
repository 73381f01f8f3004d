"""Names the metadata partition, and a position in its log (``OffsetAndEpoch``). Holds no rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kwire.protocol import CLUSTER_METADATA_TOPIC

TOPIC_NAME: Final = CLUSTER_METADATA_TOPIC
PARTITION: Final = 0


@dataclass(frozen=True, slots=True)
class Position:
    """Where a log ends: the offset to be fetched next, and the epoch of the record before it."""

    offset: int
    epoch: int
