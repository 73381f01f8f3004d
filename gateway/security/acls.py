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

_Bucket = dict["Uuid", "AccessControlEntryRecord"]


class AclIndex:
    """ACLs by what they are about. :meth:`update` brings it to a cluster's, in time that follows what changed."""

    def __init__(self) -> None:
        self._known: dict[Uuid, AccessControlEntryRecord] = {}
        self._by_name: dict[tuple[int, int, str], _Bucket] = {}  # resource type, pattern type, name
        self._longest_prefix = 0

    def __len__(self) -> int:
        return len(self._known)

    def update(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        """Hold ``acls``, by their ids, and no others."""
        known = self._known
        if known == acls:  # the same records are found to be equal by their identity: some µs for a thousand
            return
        for id in [id for id, acl in known.items() if acls.get(id) is not acl]:
            self._remove(known.pop(id))
        for id, acl in acls.items():
            if id not in known:
                known[id] = acl
                self._by_name.setdefault(_key(acl), {})[id] = acl
                if acl.pattern_type == PREFIXED:
                    self._longest_prefix = max(self._longest_prefix, len(acl.resource_name))

    def about(self, resource_type: int, name: str) -> Iterator[AccessControlEntryRecord]:
        """The ACLs that speak of the resource: of its very name, of every name, of a prefix of it."""
        buckets = self._by_name
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            if bucket := buckets.get((resource_type, LITERAL, literal)):
                yield from bucket.values()
        for length in range(min(len(name), self._longest_prefix) + 1):
            if bucket := buckets.get((resource_type, PREFIXED, name[:length])):
                yield from bucket.values()

    def _remove(self, acl: AccessControlEntryRecord) -> None:
        bucket = self._by_name[_key(acl)]
        del bucket[acl.id]
        if not bucket:
            del self._by_name[_key(acl)]


def _key(acl: AccessControlEntryRecord) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name
