"""Tells whether this node serves consumer groups of KIP-848."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.handlers.catalog import controller_image
from kwire.protocol.features import GROUP_VERSION

if TYPE_CHECKING:
    from gateway.handlers.context import Context


def has_consumer_groups(context: Context) -> bool:
    """Whether the cluster's feature level allows them. A node that only reads a log decides for
    itself: its groups are not those of the cluster.
    """
    image = controller_image(context)
    return image is None or image.features.get(GROUP_VERSION, 0) > 0
