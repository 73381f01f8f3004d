"""Drives a metadata loader to a high watermark."""

from __future__ import annotations

from gateway.sources.metadata_loader import MetadataLoader


def follow(keeper: MetadataLoader, high_watermark: int) -> int:
    """Step until there is no more to do; how often the image changed."""
    changes, more = 0, True
    while more:
        more = keeper.decode_step(high_watermark)
        changes += keeper.apply_step()
        assert not any(keeper.publish())
    return changes


def topics(keeper: MetadataLoader) -> list[str]:
    return sorted(keeper.image.topic_ids)
