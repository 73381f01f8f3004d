"""Holds what a topic says of the deletion and the compaction of its records, with Kafka's defaults
(``LogConfig``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

_DAY_MS: Final = 24 * 60 * 60 * 1000


class CleanupSettings(NamedTuple):
    """``cleanup.policy``, and the settings of a topic that is compacted; times in ms."""

    deletes: bool = True
    compacts: bool = False
    min_cleanable_ratio: float = 0.5  #: min.cleanable.dirty.ratio
    min_lag_ms: int = 0  #: min.compaction.lag.ms
    max_lag_ms: int = (1 << 63) - 1  #: max.compaction.lag.ms
    delete_retention_ms: int = _DAY_MS  #: delete.retention.ms
