"""Finds the ACLs in force, for the handlers that describe them.

Without an authorizer that reads ACLs none is in force: a list of them would make an administrator
rely on ACLs without effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.handlers.catalog import cluster_image

if TYPE_CHECKING:
    from gateway.handlers.context import Context
    from kwire.cluster.image import Image

NO_AUTHORIZER: Final = (
    "No authorizer is configured here (authorizer.class.name), so ACLs would have no effect."
)


def acls_in_force(context: Context) -> Image | None:
    """Return the committed image with the ACLs; None without an authorizer that reads them, and
    before the image is loaded.
    """
    gateway = context.gateway
    if gateway.controller is not None and not gateway.authorizer.keeps_acls:
        return None
    return cluster_image(context)
