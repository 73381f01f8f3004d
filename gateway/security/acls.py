"""The ACLs of a cluster, found by resource: which of them speak of one name, whoever asks. Pure; it decides nothing.

Kafka walks one sorted set (``AclCache``); here every prefix of the name is looked up instead, which finds the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.uuid import Uuid

#: ``ResourceType``: the numbers of the records and requests.
RESOURCE_TYPES: Final = {
    "TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6, "USER": 7,
}  # fmt: skip
#: ``PatternType``.
LITERAL: Final = 3
PREFIXED: Final = 4
#: As a literal name: every resource of the type. As a host: every host.
WILDCARD: Final = "*"


class AclIndex:
    """ACLs by what they are about. :meth:`update` brings it to a cluster's, in time that follows their number."""

    def __init__(self) -> None:
        self._known: dict[Uuid, AccessControlEntryRecord] = {}
        # By resource type and pattern type, then by name: containers of their own for few ACLs each cost more than they do.
        self._by_name: dict[tuple[int, int], dict[str, tuple[AccessControlEntryRecord, ...]]] = {}
        self._longest_prefix = 0

    def __len__(self) -> int:
        return len(self._known)

    def update(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        """Hold ``acls``, by their ids, and no others."""
        known = self._known
        for id in [id for id, acl in known.items() if acls.get(id) is not acl]:
            self._remove(known.pop(id))
        for id in acls.keys() - known.keys() if known else acls:
            self._add(id, acls[id])

    def about(self, resource_type: int, name: str) -> Iterator[AccessControlEntryRecord]:
        """The ACLs that speak of the resource: of its very name, of every name, of a prefix of it."""
        literal = self._by_name.get((resource_type, LITERAL), {})
        yield from literal.get(name, ())
        if name != WILDCARD:
            yield from literal.get(WILDCARD, ())
        prefixed = self._by_name.get((resource_type, PREFIXED))
        if prefixed:
            for length in range(min(len(name), self._longest_prefix) + 1):
                yield from prefixed.get(name[:length], ())

    def _add(self, id: Uuid, acl: AccessControlEntryRecord) -> None:
        self._known[id] = acl
        names = self._by_name.setdefault((acl.resource_type, acl.pattern_type), {})
        names[acl.resource_name] = (*names.get(acl.resource_name, ()), acl)
        if acl.pattern_type == PREFIXED:
            self._longest_prefix = max(self._longest_prefix, len(acl.resource_name))

    def _remove(self, acl: AccessControlEntryRecord) -> None:
        names = self._by_name[acl.resource_type, acl.pattern_type]
        left = tuple(one for one in names[acl.resource_name] if one is not acl)
        if left:
            names[acl.resource_name] = left
        else:
            del names[acl.resource_name]
