"""Tells a loader how far it may read files that another program writes, and when they were cut.

A quorum never takes back what is committed, but a log directory is served to its end: Kafka may
truncate what no other voter has (KIP-101).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.sources.log_partition import LogPartition
    from gateway.sources.metadata_loader import MetadataLoader
    from kwire.cluster import Image


class ServedFiles:
    """The log of ``partition`` for ``loader``, as the image updater wants it."""

    def __init__(self, partition: LogPartition, loader: MetadataLoader) -> None:
        self._partition = partition
        self._loader = loader
        self._gone: Image | None = None  # an image of records that are gone
        self.on_advance: Callable[[Callable[[], None]], Callable[[], None]] = partition.on_advance

    @property
    def committed(self) -> int:
        """One past the last offset. The loader begins again where what it read is gone."""
        partition, image = self._partition, self._loader.image
        end, epoch = image.next_offset, partition.epoch_at(image.next_offset - 1)
        is_gone = end > partition.high_watermark or (epoch >= 0 and epoch != image.epoch)
        # Until the loader has another image it has begun again already.
        if is_gone and image is not self._gone:
            self._gone = image
            self._loader.restart()
        return partition.high_watermark
