"""Writes an image as the records of its snapshot, at the versions of its metadata.version
(``MetadataImage.write``).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from kwire.cluster.entities import KINDS
from kwire.cluster.image import Image
from kwire.message import Message


def image_records(image: Image) -> Iterator[tuple[Message, int]]:
    """Return (record, version) of the whole state, metadata.version first, kinds in Kafka's order,
    each in that of its keys.
    """
    return chain.from_iterable(kind.snapshot(image) for kind in KINDS)
