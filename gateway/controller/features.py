"""Which features a cluster begins with at a level of metadata.version (KIP-584, KIP-1022). Facts of Kafka 4.3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kwire.cluster.image import METADATA_VERSION, Image

ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
#: Stands in a control record of the log, not among its features (KIP-853).
KRAFT_VERSION: Final = "kraft.version"
#: What a node of our own quorum supports, from the lowest level to the highest: the features of Kafka 4.3, by name.
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({
    ELIGIBLE_LEADER_REPLICAS: (0, 1),
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    METADATA_VERSION: (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
})  # fmt: skip
#: Feature -> the metadata.version without which it cannot be in use; else any will do (``FeatureVersion.dependencies``).
NEEDED_METADATA_VERSION: Final[Mapping[str, int]] = MappingProxyType({ELIGIBLE_LEADER_REPLICAS: 23})

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
