"""Describes a feature of a cluster: its levels, their dependencies, and the default level at each
metadata.version (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """One level (``FeatureVersion``).

    ``metadata_version`` is the level of metadata.version from which on a new cluster has it
    (``bootstrapMetadataVersion``). ``dependencies``: feature -> the level that it must have, for
    this one to be finalized.
    """

    level: int
    metadata_version: int
    dependencies: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature with its levels, lowest first (``Feature``)."""

    name: str
    minimum: int
    latest_production: int
    levels: tuple[FeatureLevel, ...]

    def default_level(self, metadata_version: int) -> int:
        """The level that a new cluster at ``metadata_version`` has (``Feature.defaultLevel``)."""
        production = [one for one in self.levels if one.level <= self.latest_production]
        return max(
            (one.level for one in production if one.metadata_version <= metadata_version),
            default=self.minimum,
        )

    def dependencies(self, level: int) -> Mapping[str, int]:
        """The levels that ``level`` needs of other features; empty for a level that this release
        does not know.
        """
        return next((one.dependencies for one in self.levels if one.level == level), {})
