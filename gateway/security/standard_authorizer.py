"""Decides as Kafka's ``StandardAuthorizer``: super users, then the committed ACLs, deny before
allow. Pure.

Until the log was read only super users are allowed anything. The nodes of a quorum must therefore
be super users: without a leader no ACL is ever committed.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import TYPE_CHECKING, Final

from gateway.base.java.text import trim
from gateway.security.acls import DENIED_SHIFT, RESOURCE_TYPES, WILDCARD, AclIndex
from kwire.protocol import AclOperation

if TYPE_CHECKING:
    from kwire.cluster import Delta, Image

#: The value of ``authorizer.class.name``.
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: ``AclOperation``.
OPERATIONS: Final = {one.name: one for one in AclOperation if one > AclOperation.ANY}
#: Each key is allowed where one of its values is. A denied operation implies nothing
#: (``AclEntry``).
_IMPLIED_BY: Final = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}
_ANY_USER: Final = "User:*"


def _bits(*operations: str) -> int:
    return sum({1 << OPERATIONS[name] for name in operations})


#: By operation: the bits of which one must be allowed, and those of which none may be denied.
_ALLOWED_BY: Final = {name: _bits(name, "ALL", *_IMPLIED_BY.get(name, ())) for name in OPERATIONS}
_DENIED_BY: Final = {name: _bits(name, "ALL") << DENIED_SHIFT for name in OPERATIONS}


class StandardAuthorizer:
    """Implements ``gateway.ports.services.Authorizer``. It subscribes to the committed images of
    the cluster, and keeps an index of their ACLs (``AclPublisher``).

    ``allow_everyone`` decides on resources without ACLs (``allow.everyone.if.no.acl.found``).
    """

    keeps_acls: Final = True

    def __init__(
        self, *, super_users: frozenset[str] = frozenset(), allow_everyone: bool = False
    ) -> None:
        self._index: AclIndex | None = None  # None until an image is loaded
        self._prepared: AclIndex | None = None
        self._super_users = super_users
        self._allow_everyone = allow_everyone

    def allows(
        self, principal: str, host: str, operation: str, resource_type: str, resource_name: str
    ) -> bool:
        """Whether ``principal`` (``Type:name``) at the address ``host`` may do ``operation``.
        Raises KeyError for an unknown operation or type.
        """
        if principal in self._super_users:
            return True
        index = self._index
        if index is None:
            return False
        kind = RESOURCE_TYPES[resource_type]
        allowed_by, denied_by = _ALLOWED_BY[operation], _DENIED_BY[operation]
        hosts, address = _hosts(host)
        if address is not None:
            hosts = (*hosts, *index.hosts_containing(address))
        found = index.operations(kind, resource_name, (principal, _ANY_USER), hosts)
        if found & denied_by:
            return False
        if found & allowed_by:
            return True
        return self._allow_everyone and not index.has_acls(kind, resource_name)

    def allows_all(self, principal: str) -> bool:
        """Whether ``principal`` is a super user. Every other one is subject to the ACLs."""
        return principal in self._super_users

    def prepare(self, delta: Delta | None, image: Image) -> None:
        """Index the ACLs of another image, in the thread that loads it: 100,000 of them take half a
        second.
        """
        if delta is None:
            self._prepared = _index_of(image)

    def on_update(self, delta: Delta | None, image: Image) -> None:
        """Take over the ACLs of another image, None, or those that ``delta`` has changed: 9,000
        take 10 to 18 ms.
        """
        if delta is None:
            prepared, self._prepared = self._prepared, None
            self._index = _index_of(image) if prepared is None else prepared
        elif self._index is not None:
            self._index.change(image.acls, delta.changed_keys("acls"))


def _index_of(image: Image) -> AclIndex:
    index = AclIndex()
    index.update(image.acls)
    return index


def parse_super_users(text: str) -> frozenset[str]:
    """Return the principals in ``super.users``: ``Type:name``, separated by semicolons. Raises
    ValueError.
    """
    users = frozenset(user for part in text.split(";") if (user := trim(part)))
    for user in sorted(users):
        kind, colon, _ = user.partition(":")
        if not kind or not colon:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {user}"
            )
    return users


@functools.lru_cache(maxsize=4096)
def _hosts(
    host: str,
) -> tuple[tuple[str, ...], ipaddress.IPv4Address | ipaddress.IPv6Address | None]:
    """Return the ACL hosts, other than ranges, that match ``host``, and its address; None if
    ``host`` is no address.

    These are the wildcard and each way to write the address, Java's included.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return (WILDCARD, host), None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return (WILDCARD, host, str(address.ipv4_mapped)), address.ipv4_mapped
        words = ":".join(
            f"{int.from_bytes(address.packed[at : at + 2]):x}" for at in range(0, 16, 2)
        )
        scoped = words + (f"%{address.scope_id}" if address.scope_id else "")
        return (WILDCARD, host, str(address), scoped), address
    return (WILDCARD, host), address
