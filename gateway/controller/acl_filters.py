"""ACLs as requests speak of them: one to be made, a filter that finds many. Knows no request's
shape and no state.

``AclBinding``, ``AclBindingFilter`` and ``AclControlManager``'s rules for them, with the numbers of
the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.controller.errors import ApiError
from gateway.security.acls import LITERAL, PREFIXED, RESOURCE_TYPES, WILDCARD
from gateway.security.cidr import parse_cidr
from kwire.protocol import (
    AclOperation,
    ErrorCode,
    MetadataVersion,
    PatternType,
    PermissionType,
    ResourceType,
)
from kwire.protocol.metadata_version import is_cidr_acl_supported

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord

#: Of every kind of number: unknown, and any of them (only filters say so).
UNKNOWN: Final = ResourceType.UNKNOWN
ANY: Final = ResourceType.ANY
#: ``PatternType.MATCH``: whatever pattern would cover a resource of this name.
MATCH: Final = PatternType.MATCH
_TYPES: Final = frozenset(RESOURCE_TYPES.values())
_TYPE_NAMES: Final = {int(one): one.name for one in ResourceType}
_PATTERNS: Final = frozenset({LITERAL, PREFIXED})
_OPERATIONS: Final = frozenset(one for one in AclOperation if one > AclOperation.ANY)
_PERMISSIONS: Final = frozenset((PermissionType.DENY, PermissionType.ALLOW))
_CLUSTER: Final = RESOURCE_TYPES["CLUSTER"]
_CLUSTER_NAME: Final = "kafka-cluster"


class Acl(NamedTuple):
    """What an ACL says. Two of the same are one."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Acl:
        """That of a record."""
        return cls(*(getattr(record, name) for name in cls._fields))

    def check(self) -> None:
        """Raise ApiError unless it can be made."""
        if self.resource_type == _CLUSTER and self.resource_name != _CLUSTER_NAME:
            raise _invalid(f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}")
        if not self.resource_name:
            raise _invalid("Invalid empty resource name")
        if self.resource_type not in _TYPES:
            raise _invalid(f"Invalid resourceType {_told(self.resource_type)}")
        if self.pattern_type not in _PATTERNS:
            raise _invalid(f"Invalid patternType {_told(self.pattern_type, MATCH)}")
        if self.operation not in _OPERATIONS:
            raise _invalid(f"Invalid operation {_told(self.operation)}")
        if self.permission_type not in _PERMISSIONS:
            raise _invalid(f"Invalid permissionType {_told(self.permission_type)}")
        if ":" not in self.principal:
            raise _invalid(
                f"Could not parse principal from `{self.principal}` (no colon is present separating the principal type from"
                " the principal name)"
            )

    def check_host(self, level: int) -> None:
        """Raise ApiError unless the host is one that an ACL can have at ``level`` of
        metadata.version.
        """
        if not self.host:
            raise _invalid("Host pattern cannot be null or empty")
        if "/" not in self.host:
            return
        if not is_cidr_acl_supported(level):
            why = f"CIDR-based ACL host patterns require metadata version {MetadataVersion.IBP_4_4_IV1.release} or higher."
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
        try:
            parse_cidr(self.host)
        except ValueError as error:
            raise _invalid(f"Invalid CIDR notation '{self.host}': {error}") from None


class AclFilter(NamedTuple):
    """Which ACLs are meant. None, and ANY, is every one; the names are those of the filters of
    Kafka's requests.
    """

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

    @classmethod
    def of(cls, asked: AclFilter | object) -> AclFilter:
        """That of a DescribeAcls request, or of a filter in a DeleteAcls request."""
        return cls(*(getattr(asked, name) for name in cls._fields))

    def says_unknown(self) -> bool:
        """Is one of its numbers 0, which no client may send?"""
        return UNKNOWN in (
            self.resource_type_filter,
            self.pattern_type_filter,
            self.operation,
            self.permission_type,
        )

    def check(self) -> None:
        """Raise ApiError for numbers that Kafka has not: deleting by what nobody understands is not
        for a guess.
        """
        if self.resource_type_filter not in {ANY, *_TYPES} or self.pattern_type_filter not in {
            ANY,
            MATCH,
            *_PATTERNS,
        }:
            raise _invalid("Unknown patternFilter.")
        if self.operation not in {ANY, *_OPERATIONS} or self.permission_type not in {
            ANY,
            *_PERMISSIONS,
        }:
            raise _invalid("Unknown entryFilter.")

    def matches(self, acl: AccessControlEntryRecord | Acl) -> bool:
        """Is ``acl`` one of those that are meant?"""
        return (
            self.resource_type_filter in (ANY, acl.resource_type)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
            and self.principal_filter in (None, acl.principal)
            and self.host_filter in (None, acl.host)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: AccessControlEntryRecord | Acl) -> bool:
        wanted, name = self.pattern_type_filter, self.resource_name_filter
        if wanted not in (ANY, MATCH, acl.pattern_type):
            return False
        if name is None:
            return True
        if wanted != MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


def resource_type_name(number: int) -> str:
    """The name of a resource type, ``UNKNOWN`` for a number that Kafka has not."""
    return _TYPE_NAMES.get(number, ResourceType.UNKNOWN.name)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _told(number: int, *known: int) -> str:
    if number == ANY:
        return "ANY"
    return "MATCH" if number in known else "UNKNOWN"
