"""Tells whether the finalized levels of features are among those that this release knows.

A cluster at a higher level writes records, or fields of records, whose meaning this release does
not know. It does not decide what follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kwire.protocol.features import FEATURES
from kwire.protocol.metadata_version import LATEST_PRODUCTION_METADATA_VERSION, METADATA_VERSION

_NEWEST: Final[Mapping[str, int]] = {
    METADATA_VERSION: LATEST_PRODUCTION_METADATA_VERSION,
    **{name: feature.latest_production for name, feature in FEATURES.items()},
}


def unknown_level(features: Mapping[str, int]) -> str | None:
    """Return a clause about the first feature whose level is above the newest known one, or which
    is not known at all; None if there is none.
    """
    for name, level in sorted(features.items()):
        newest = _NEWEST.get(name, 0)
        if level > newest:
            return (
                f"{name} is finalized at level {level}, and the newest that this release knows is"
                f" {newest}"
            )
    return None
