"""Releases and their features, as `kafka-storage version-mapping` and `feature-dependencies` of
Kafka 4.4.0 print them.
"""

from __future__ import annotations

import pytest

from gateway.log.metadata.releases import (
    LEVEL_MAX,
    LEVEL_MIN,
    LEVELS,
    features_of,
    level_of,
    release_of,
)

_NAMES = (
    "eligible.leader.replicas.version",
    "group.version",
    "share.version",
    "streams.version",
    "transaction.version",
)


@pytest.mark.parametrize(
    ("release", "level", "features"),
    [
        ("3.3-IV3", 7, (0, 0, 0, 0, 0)),
        ("3.7-IV4", 19, (0, 0, 0, 0, 0)),
        ("3.9-IV0", 21, (0, 0, 0, 0, 0)),
        ("4.0-IV0", 22, (0, 1, 0, 0, 0)),
        ("4.0-IV1", 23, (0, 1, 0, 0, 0)),
        ("4.0-IV2", 24, (0, 1, 0, 0, 2)),
        ("4.0", 25, (0, 1, 0, 0, 2)),
        ("4.1-IV0", 26, (1, 1, 0, 0, 2)),
        ("4.1-IV1", 27, (1, 1, 0, 0, 2)),
        ("4.2-IV0", 28, (1, 1, 1, 0, 2)),
        ("4.2", 29, (1, 1, 1, 1, 2)),
        ("4.3", 30, (1, 1, 1, 1, 2)),
        ("4.4-IV0", 31, (1, 1, 2, 1, 2)),
        ("4.4-IV1", 32, (1, 1, 2, 1, 2)),
        ("4.4", 33, (1, 1, 2, 1, 2)),
    ],
)
def test_as_kafka_maps_them(release: str, level: int, features: tuple[int, ...]) -> None:
    assert level_of(release) == level
    expected = [(name, value) for name, value in zip(_NAMES, features, strict=True) if value]
    assert features_of(level) == (("metadata.version", level), *expected)


def test_names_and_levels() -> None:
    assert len(LEVELS) == LEVEL_MAX - LEVEL_MIN + 1
    assert all(level_of(release_of(level)) == level for level in LEVELS.values())
    assert release_of(34) == "34"


def test_features_of_ones_own_choice() -> None:
    assert features_of(25, {"group.version": 0, "transaction.version": 1}) == (
        ("metadata.version", 25),
        ("transaction.version", 1),
    )
    assert ("eligible.leader.replicas.version", 1) in features_of(
        23, {"eligible.leader.replicas.version": 1}
    )


@pytest.mark.parametrize(
    ("level", "chosen", "what"),
    [
        (6, {}, "metadata.version=6: it goes from 7 to 33"),
        (34, {}, "metadata.version=34"),
        (33, {"share.version": 3}, "share.version=3: it goes from 0 to 2"),
        (30, {"group.version": 2}, "group.version=2: it goes from 0 to 1"),
        (
            30,
            {"groups": 1},
            "groups is no feature; there are metadata.version, kraft.version, eligible",
        ),
        (
            22,
            {"eligible.leader.replicas.version": 1},
            "needs metadata.version 4.0-IV1, and 4.0-IV0 was chosen",
        ),
    ],
)
def test_levels_that_no_release_finalizes_are_refused(
    level: int, chosen: dict[str, int], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        features_of(level, chosen)


def test_unknown_release() -> None:
    with pytest.raises(
        ValueError, match=r"'2\.8' is no release: the oldest is 3\.3-IV3, the newest 4\.4-IV2"
    ):
        level_of("2.8")
