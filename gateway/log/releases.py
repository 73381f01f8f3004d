"""What a Kafka release finalizes when it formats: levels of metadata.version and the features that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
#: Levels of metadata.version that Kafka 4 formats (``MetadataVersion.MINIMUM_VERSION`` to the newest of 4.3).
LEVEL_MIN: Final = 7
LEVEL_MAX: Final = 30
#: From this level on kraft.version may be 1 (KIP-853).
DYNAMIC_QUORUM_LEVEL: Final = 21
_RELEASES: Final = (
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2",
    "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0",
    "4.2-IV1", "4.3-IV0",
)  # fmt: skip
#: The levels of metadata.version by the names of releases (``MetadataVersion``).
LEVELS: Final[Mapping[str, int]] = {name: level for level, name in enumerate(_RELEASES, LEVEL_MIN)}
#: Features beside metadata.version, in the order in which Kafka writes them: (name, level of metadata.version from which it
#: is on by itself, its level then, its highest level).
_FEATURES: Final = (
    ("eligible.leader.replicas.version", 26, 1, 1),
    ("group.version", 22, 1, 1),
    ("share.version", 28, 1, 1),
    ("streams.version", 29, 1, 1),
    ("transaction.version", 24, 2, 2),
)
#: (feature, level) needs at least this level of metadata.version.
_DEPENDENCIES: Final = {("eligible.leader.replicas.version", 1): 23}


def release_of(level: int) -> str:
    """The name of a level, its number where no release known here has it."""
    return _RELEASES[level - LEVEL_MIN] if LEVEL_MIN <= level <= LEVEL_MAX else str(level)


def level_of(release: str) -> int:
    """The level that ``release`` (``4.3-IV0``, or ``4.3`` for the newest of 4.3) stands for. Raises ValueError."""
    fitting = [level for name, level in LEVELS.items() if release in (name, name.partition("-")[0])]
    if not fitting:
        raise ValueError(f"{release!r} is no release: the oldest is {_RELEASES[0]}, the newest {_RELEASES[-1]}")
    return fitting[-1]


def features_of(level: int, chosen: Mapping[str, int] | None = None) -> tuple[tuple[str, int], ...]:
    """What is finalized at ``level`` of metadata.version, that itself first; ``chosen`` levels come before the release's.

    Level 0 is left out, as Kafka does. Raises ValueError for what no release can finalize.
    """
    if not LEVEL_MIN <= level <= LEVEL_MAX:
        raise ValueError(f"{METADATA_VERSION}={level}: it goes from {LEVEL_MIN} to {LEVEL_MAX}")
    chosen = chosen or {}
    unknown = sorted(chosen.keys() - {name for name, *_ in _FEATURES})
    if unknown:
        known = ", ".join((METADATA_VERSION, KRAFT_VERSION, *(name for name, *_ in _FEATURES)))
        raise ValueError(f"{unknown[0]} is no feature; there are {known}")
    found = [(METADATA_VERSION, level)]
    for name, since, usual, highest in _FEATURES:
        wanted = chosen.get(name, usual if level >= since else 0)
        if not 0 <= wanted <= highest:
            raise ValueError(f"{name}={wanted}: it goes from 0 to {highest}")
        needed = _DEPENDENCIES.get((name, wanted), 0)
        if level < needed:
            raise ValueError(f"{name}={wanted} needs {METADATA_VERSION} {release_of(needed)}, and {release_of(level)} was chosen")
        if wanted:
            found.append((name, wanted))
    return tuple(found)
