"""Defines the features that this controller supports, and those of a new cluster (KIP-584,
KIP-1022).

Ranges, defaults and dependencies are Kafka's (``kwire.protocol.features``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kwire.cluster.image import Image
from kwire.protocol.features import ELIGIBLE_LEADER_REPLICAS_VERSION, FEATURES, KRAFT_VERSION
from kwire.protocol.metadata_version import (
    LATEST_PRODUCTION_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
)

#: The lowest and highest level of each feature, by name. That of kraft.version is in a control
#: record of the log, not in a FeatureLevelRecord (KIP-853).
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({
    METADATA_VERSION: (MINIMUM_METADATA_VERSION, LATEST_PRODUCTION_METADATA_VERSION),
    **{name: (feature.minimum, feature.latest_production) for name, feature in FEATURES.items()},
})  # fmt: skip


def default_features(metadata_version: int) -> dict[str, int]:
    """Return the levels that ``kafka-storage format`` finalizes beside ``metadata_version``, in the
    order in which it writes them.
    """
    levels = {
        name: feature.default_level(metadata_version) for name, feature in sorted(FEATURES.items())
    }
    # Level 0 has no record: the feature is off.
    return {name: level for name, level in levels.items() if level and name != KRAFT_VERSION}


def needed_metadata_version(name: str, level: int) -> int:
    """Return the lowest metadata.version at which feature ``name`` can be at ``level``
    (``FeatureVersion.dependencies``).
    """
    feature = FEATURES.get(name)
    dependencies = feature.dependencies(level) if feature is not None else {}
    return dependencies.get(METADATA_VERSION, MINIMUM_METADATA_VERSION)


def has_elr(image: Image) -> bool:
    """Whether the cluster keeps eligible leader replicas (KIP-966)."""
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0
