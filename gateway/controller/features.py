"""Which features a cluster begins with at a level of metadata.version (KIP-584, KIP-1022). Facts of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kwire.cluster.image import Image

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
#: Stands in a control record of the log, not among its features (KIP-853).
KRAFT_VERSION: Final = "kraft.version"

#: Feature -> (level of metadata.version from which on a new cluster has it, its own level then). Sorted by name, which is
#: the order in which Kafka writes them.
_SINCE: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({
    ELIGIBLE_LEADER_REPLICAS: (26, 1),  # 4.1-IV0
    "group.version": (22, 1),  # 4.0-IV0
    "share.version": (28, 1),  # 4.2-IV0
    "streams.version": (29, 1),  # 4.2-IV1
    "transaction.version": (24, 2),  # 4.0-IV2
})  # fmt: skip


def default_features(metadata_version: int) -> dict[str, int]:
    """What ``kafka-storage format`` finalizes beside metadata.version at that level (``Feature.defaultLevel``)."""
    return {name: level for name, (since, level) in _SINCE.items() if metadata_version >= since}


def has_elr(image: Image) -> bool:
    """Does the cluster keep eligible leader replicas (KIP-966)? Then what makes a replica eligible is guarded."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0
