"""How a controller is set: defaults of topics, what the first leader writes. Values, checked by who reads the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.controller.records import LEVEL_MAX


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """``serving_nodes``: ids of the nodes of the quorum, on which partitions are placed while no broker is registered.

    ``metadata_version`` (a level, 7 to 30) and ``features`` (None: those of a new cluster at that level) are what the first
    leader finalizes.
    """

    node_id: int
    serving_nodes: tuple[int, ...]
    metadata_version: int = LEVEL_MAX
    features: Mapping[str, int] | None = None
    num_partitions: int = 1
    default_replication_factor: int = 1
    max_idle_interval_ms: int = 500  #: ``metadata.max.idle.interval.ms``; 0: no NoOpRecords
