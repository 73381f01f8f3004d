"""Indexes the ACLs of a cluster by resource, principal and host. Pure.

Kafka's ``StandardAuthorizerData`` walks one sorted set past all ACLs of a name. Here the ACLs of
one name, principal and host are one set of allowed and denied operations, so that a lookup takes
the same time for one ACL and for ten thousand. The index finds rules;
``gateway.security.standard_authorizer`` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Final

from gateway.security.cidr import CidrPatterns
from kwire.protocol import SUPPORTED_OPERATIONS, PatternType, PermissionType

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.uuid import Uuid

#: ``ResourceType``: the numbers by name. No ACL has UNKNOWN or ANY.
RESOURCE_TYPES: Final = {one.name: one for one in SUPPORTED_OPERATIONS}
#: ``PatternType``.
LITERAL: Final = PatternType.LITERAL
PREFIXED: Final = PatternType.PREFIXED
#: As a literal name: every resource of the type. As a host: every host.
WILDCARD: Final = "*"
#: ``AclPermissionType``.
DENY: Final = PermissionType.DENY
ALLOW: Final = PermissionType.ALLOW
#: The bit of an allowed operation is its number; that of a denied one is so much higher.
DENIED_SHIFT: Final = 16
#: ``AclOperation`` ends below it. ACLs with numbers of a later release match no request.
_OPERATIONS_END: Final = DENIED_SHIFT

#: Resource type, pattern type, resource name, principal, host.
_Place = tuple[int, int, str, str, str]


class _Names:
    """The resource names of the ACLs with one resource type and pattern type."""

    __slots__ = ("_acls", "_lengths")

    def __init__(self) -> None:
        self._acls: Counter[str] = Counter()  # number of ACLs by name
        self._lengths: Counter[int] = Counter()  # number of names by length

    def __contains__(self, name: str) -> bool:
        return name in self._acls

    def add(self, name: str) -> None:
        """Count one more ACL with this name."""
        if name not in self._acls:
            self._lengths[len(name)] += 1
        self._acls[name] += 1

    def remove(self, name: str) -> None:
        """Count one ACL less. Zeros are deleted: over time a cluster may have had any number of
        names.
        """
        self._acls[name] -= 1
        if not self._acls[name]:
            del self._acls[name]
            self._lengths[len(name)] -= 1
            if not self._lengths[len(name)]:
                del self._lengths[len(name)]

    def prefixes(self, name: str) -> list[str]:
        """Return the names that ``name`` begins with."""
        return [
            name[:length]
            for length in self._lengths
            if length <= len(name) and name[:length] in self._acls
        ]


class AclIndex:
    """Operations by resource, principal and host, kept up to date by :meth:`update` and
    :meth:`change`.
    """

    def __init__(self) -> None:
        self._known: dict[Uuid, AccessControlEntryRecord] = {}
        self._names: dict[tuple[int, int], _Names] = {}
        self._operations: dict[_Place, int] = {}
        # Number of further ACLs with equal content. Kafka writes none twice, but a log may hold any
        # records, and removing one of two must not remove the permission.
        self._repeated: Counter[tuple[_Place, int]] = Counter()
        self._ranges = CidrPatterns()

    def __len__(self) -> int:
        return len(self._known)

    def update(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        """Replace all ACLs by ``acls``. Takes time for each of them."""
        known = self._known
        self.change(acls, [id for id in known if id not in acls])
        self.change(acls, acls)

    def change(self, acls: Mapping[Uuid, AccessControlEntryRecord], ids: Iterable[Uuid]) -> None:
        """Replace the ACLs by ``acls``, which differ from the current ones in ``ids`` only. Takes
        time for each id.
        """
        for id in ids:
            before, after = self._known.get(id), acls.get(id)
            if before is after:
                continue
            if before is not None:
                del self._known[id]
                self._remove(before)
            if after is not None:
                self._known[id] = after
                self._add(after)

    def operations(
        self, resource_type: int, name: str, principals: Collection[str], hosts: Collection[str]
    ) -> int:
        """Return the operations that ACLs on the resource allow to any of ``principals`` at any of
        ``hosts``, as bits.

        Denied operations are ``DENIED_SHIFT`` bits higher. The ACLs on a resource are those with
        its name, with the name ``*``, and with a prefix of its name.
        """
        found, operations = 0, self._operations.get
        for pattern_type, pattern in self._patterns(resource_type, name):
            for principal in principals:
                for host in hosts:
                    found |= operations((resource_type, pattern_type, pattern, principal, host), 0)
        return found

    def hosts_containing(self, address: IPv4Address | IPv6Address) -> Iterator[str]:
        """Return the hosts of ACLs in CIDR notation whose range contains the address (Kafka
        4.4).
        """
        return self._ranges.containing(address)

    def has_acls(self, resource_type: int, name: str) -> bool:
        """Whether any principal has an ACL on the resource."""
        return bool(self._patterns(resource_type, name))

    def _patterns(self, resource_type: int, name: str) -> list[tuple[int, str]]:
        """Return pattern type and name of all ACLs on the resource."""
        found: list[tuple[int, str]] = []
        literal, prefixed = (
            self._names.get((resource_type, LITERAL)),
            self._names.get((resource_type, PREFIXED)),
        )
        if literal is not None:
            found = [(LITERAL, one) for one in (name, WILDCARD) if one in literal]
        if prefixed is not None:
            found += [(PREFIXED, one) for one in prefixed.prefixes(name)]
        return found

    def _add(self, acl: AccessControlEntryRecord) -> None:
        names = self._names.get((acl.resource_type, acl.pattern_type))
        if names is None:
            names = self._names[acl.resource_type, acl.pattern_type] = _Names()
        names.add(acl.resource_name)
        self._ranges.add(acl.host)
        place, bit = _place(acl), _bit(acl)
        before = self._operations.get(place, 0)
        if before & bit:
            self._repeated[place, bit] += 1
        elif bit:
            self._operations[place] = before | bit

    def _remove(self, acl: AccessControlEntryRecord) -> None:
        self._names[acl.resource_type, acl.pattern_type].remove(acl.resource_name)
        self._ranges.remove(acl.host)
        place, bit = _place(acl), _bit(acl)
        if (place, bit) in self._repeated:
            self._repeated[place, bit] -= 1
            if not self._repeated[place, bit]:
                del self._repeated[place, bit]
        elif bit:
            left = self._operations.pop(place) & ~bit
            if left:
                self._operations[place] = left


def _place(acl: AccessControlEntryRecord) -> _Place:
    return acl.resource_type, acl.pattern_type, acl.resource_name, acl.principal, acl.host


def _bit(acl: AccessControlEntryRecord) -> int:
    """Return the bit that the ACL sets for its place. A permission that is not ALLOW denies, as in
    Kafka.
    """
    if not 0 <= acl.operation < _OPERATIONS_END:
        return 0
    return 1 << (acl.operation if acl.permission_type == ALLOW else acl.operation + DENIED_SHIFT)
