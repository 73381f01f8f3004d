"""Kafka's ``StandardAuthorizer``: super users, then the ACLs of the metadata log, deny before allow. Pure.

It sees what is committed, as Kafka's does. Until the log was read nobody but super users may do anything: the nodes of a
quorum have to be among them, or no leader is ever elected.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.security.acls import RESOURCE_TYPES, WILDCARD, AclIndex

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.uuid import Uuid

#: What ``authorizer.class.name`` says.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: ``AclOperation``.
OPERATIONS: Final = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12, "CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}  # fmt: skip
#: ``AclPermissionType``.
DENY: Final = 2
ALLOW: Final = 3
_ALL: Final = OPERATIONS["ALL"]
#: Who may do one of these may also do this (allowing only: what is denied implies nothing).
_IMPLIED_BY: Final = {
    OPERATIONS["DESCRIBE"]: frozenset(OPERATIONS[name] for name in ("DESCRIBE", "READ", "WRITE", "DELETE", "ALTER")),
    OPERATIONS["DESCRIBE_CONFIGS"]: frozenset(OPERATIONS[name] for name in ("DESCRIBE_CONFIGS", "ALTER_CONFIGS")),
}
_EVERYBODY: Final = "User:*"
AclSource = Callable[[], tuple[int, Mapping["Uuid", "AccessControlEntryRecord"] | None]]


class StandardAuthorizer:
    """``gateway.ports.Authorizer``. ``acls`` gives those of the committed records by id, or None until they are known, and a
    number that is another one whenever they changed.

    ``allow_everyone``: what becomes of a resource that no ACL speaks of (``allow.everyone.if.no.acl.found``).
    """

    keeps_acls: Final = True

    def __init__(
        self,
        acls: AclSource,
        *,
        super_users: frozenset[str] = frozenset(),
        allow_everyone: bool = False,
    ) -> None:
        self._acls = acls
        self._index = AclIndex()
        self._seen: int | None = None
        self._super_users = super_users
        self._allow_everyone = allow_everyone

    def allows(self, principal: str, host: str, operation: str, resource_type: str, resource_name: str) -> bool:
        """May ``principal`` (``Type:name``) at the address ``host`` do it? Raises KeyError for an unknown operation or type."""
        if principal in self._super_users:
            return True
        number, acls = self._acls()
        if acls is None:
            return False
        if number != self._seen:
            self._index.update(acls)
            self._seen = number
        wanted, hosts = OPERATIONS[operation], _hosts(host)
        found = allowed = False
        for acl in self._index.about(RESOURCE_TYPES[resource_type], resource_name):
            found = True
            if acl.principal not in (principal, _EVERYBODY) or acl.host not in hosts:
                continue
            if acl.permission_type != ALLOW:
                if acl.operation in (wanted, _ALL):
                    return False
            elif acl.operation == _ALL or acl.operation in _IMPLIED_BY.get(wanted, (wanted,)):
                allowed = True
        return allowed if found else self._allow_everyone


def parse_super_users(text: str) -> frozenset[str]:
    """The principals in ``super.users``: ``Type:name``, semicolons between them. Raises ValueError."""
    users = frozenset(part.strip() for part in text.split(";") if part.strip())
    for user in sorted(users):
        kind, colon, _ = user.partition(":")
        if not kind or not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {user}")
    return users


@functools.lru_cache(maxsize=4096)
def _hosts(host: str) -> tuple[str, ...]:
    """What an ACL may call ``host``: anybody's, and each way to write the address, of which Java writes the longest."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return WILDCARD, host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return WILDCARD, host, str(address.ipv4_mapped)
        words = ":".join(f"{int.from_bytes(address.packed[at : at + 2]):x}" for at in range(0, 16, 2))
        return WILDCARD, host, str(address), words + (f"%{address.scope_id}" if address.scope_id else "")
    return WILDCARD, host
