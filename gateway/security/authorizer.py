"""Chooses the authorizer that the configuration names. Handlers use it as
``gateway.ports.services.Authorizer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gateway.security.standard_authorizer import StandardAuthorizer, parse_super_users

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.config.config import Config
    from kwire.cluster import Delta, Image

    Publisher = Callable[[Delta | None, Image], None]


class AllowAll:
    """Allows every operation, as Kafka does without ``authorizer.class.name``."""

    keeps_acls: Final = False

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Always true."""
        return True

    def allows_all(self, principal: str) -> bool:
        """Always true."""
        return True


class Images(Protocol):
    """Tells of the committed images of the cluster (``gateway.sources.metadata_loader``)."""

    def subscribe(self, on_update: Publisher, prepare: Publisher | None = None) -> None: ...


def authorizer_of(
    config: Config, images: Images, *, itself: str | None = None
) -> AllowAll | StandardAuthorizer:
    """Return the authorizer of a checked configuration, subscribed to the ACLs of ``images``.

    ``itself``: the principal of this node's requests to itself.
    """
    if config.authorizer_class_name is None:
        return AllowAll()
    authorizer = StandardAuthorizer(
        super_users=parse_super_users(config.super_users)
        | ({itself} if itself is not None else set()),
        allow_everyone=config.allow_everyone_if_no_acl_found,
    )
    images.subscribe(authorizer.on_update, authorizer.prepare)
    return authorizer
