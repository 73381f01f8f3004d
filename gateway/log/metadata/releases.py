"""Computes the features that a Kafka release finalizes when it formats a directory.

The levels are data of ``kwire.protocol``; which one a running cluster may move to is decided in
``gateway.controller``. Source: ``Formatter``, ``Feature``, ``MetadataVersion``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.protocol.features import FEATURES, KRAFT_VERSION
from kwire.protocol.metadata_version import (
    LATEST_PRODUCTION_METADATA_VERSION,
    METADATA_VERSION,
    MINIMUM_METADATA_VERSION,
    RELEASES,
)

__all__ = [
    "DYNAMIC_QUORUM_LEVEL",
    "KRAFT_VERSION",
    "LEVELS",
    "LEVEL_MAX",
    "LEVEL_MIN",
    "METADATA_VERSION",
    "features_of",
    "level_of",
    "release_of",
]

#: Levels of metadata.version that a directory can be formatted with: those for production.
LEVEL_MIN: Final = MINIMUM_METADATA_VERSION
LEVEL_MAX: Final = LATEST_PRODUCTION_METADATA_VERSION
#: The first level at which kraft.version may be 1 (KIP-853).
DYNAMIC_QUORUM_LEVEL: Final = FEATURES[KRAFT_VERSION].levels[1].metadata_version
#: The levels of metadata.version by the names of releases (``MetadataVersion``).
LEVELS: Final[Mapping[str, int]] = {
    name: level for level, name in RELEASES.items() if LEVEL_MIN <= level <= LEVEL_MAX
}
#: Features beside metadata.version and kraft.version, in the order in which Kafka writes them.
_FEATURES: Final = {name: FEATURES[name] for name in sorted(FEATURES) if name != KRAFT_VERSION}


def release_of(level: int) -> str:
    """Return the name of a level, or its number if no known release has it."""
    return RELEASES[level] if LEVEL_MIN <= level <= LEVEL_MAX else str(level)


def level_of(release: str) -> int:
    """Return the level of ``release`` (``4.3-IV0``, or ``4.3`` for the newest of 4.3). Raises
    ValueError.
    """
    fitting = [level for name, level in LEVELS.items() if release in (name, name.partition("-")[0])]
    if not fitting:
        raise ValueError(
            f"{release!r} is no release: the oldest is {release_of(LEVEL_MIN)}, "
            f"the newest {release_of(LEVEL_MAX)}"
        )
    # The newest of a release: ``LEVELS`` ascends.
    return fitting[-1]


def features_of(level: int, chosen: Mapping[str, int] | None = None) -> tuple[tuple[str, int], ...]:
    """Return the features finalized at ``level`` of metadata.version, that feature first.

    ``chosen`` levels override the release's. Level 0 is left out, as in Kafka. Raises ValueError
    for levels that no release can finalize.
    """
    # Servers of Kafka 4 start on no level below 3.3-IV3, and the records of a level that is not for
    # production may still change.
    if not LEVEL_MIN <= level <= LEVEL_MAX:
        raise ValueError(f"{METADATA_VERSION}={level}: it goes from {LEVEL_MIN} to {LEVEL_MAX}")
    chosen = chosen or {}
    # The first of them by name, so that equal mistakes get equal texts.
    unknown = sorted(chosen.keys() - _FEATURES.keys())
    if unknown:
        known = ", ".join((METADATA_VERSION, KRAFT_VERSION, *_FEATURES))
        raise ValueError(f"{unknown[0]} is no feature; there are {known}")
    found = [(METADATA_VERSION, level)]
    for name, feature in _FEATURES.items():
        feature_level = chosen.get(name, feature.default_level(level))
        if not feature.minimum <= feature_level <= feature.latest_production:
            raise ValueError(
                f"{name}={feature_level}: it goes from {feature.minimum} to "
                f"{feature.latest_production}"
            )
        needed = feature.dependencies(feature_level).get(METADATA_VERSION, 0)
        if level < needed:
            raise ValueError(
                f"{name}={feature_level} needs {METADATA_VERSION} {release_of(needed)}, and "
                f"{release_of(level)} was chosen"
            )
        # A record of level 0 removes a feature (``FeatureControlManager.replay``), and there is
        # none to remove.
        if feature_level:
            found.append((name, feature_level))
    return tuple(found)
