"""Chooses the authorizer that the configuration names. Handlers use it as
``gateway.ports.Authorizer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from gateway.security.standard_authorizer import StandardAuthorizer, parse_super_users

if TYPE_CHECKING:
    from gateway.config import Config
    from gateway.security.standard_authorizer import AclSource, ChangedAcls, TakeIndex


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

    def catch_up(self) -> None:
        """Nothing: there are no ACLs."""


class CommittedAcls(Protocol):
    """The committed ACLs, as :class:`StandardAuthorizer` takes them."""

    @property
    def acls(self) -> AclSource: ...
    @property
    def acls_changed_since(self) -> ChangedAcls: ...
    @property
    def take_acl_index(self) -> TakeIndex: ...


def authorizer_of(
    config: Config, committed: CommittedAcls, *, itself: str | None = None
) -> AllowAll | StandardAuthorizer:
    """Return the authorizer of a checked configuration.

    ``itself``: the principal of this node's requests to itself.
    """
    if config.authorizer_class_name is None:
        return AllowAll()
    return StandardAuthorizer(
        committed.acls,
        super_users=parse_super_users(config.super_users)
        | ({itself} if itself is not None else set()),
        allow_everyone=config.allow_everyone_if_no_acl_found,
        changed=committed.acls_changed_since,
        take_index=committed.take_acl_index,
    )
