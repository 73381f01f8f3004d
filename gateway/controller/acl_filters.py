"""Checks ACLs that are to be created, and matches ACLs with filters.

Follows ``AclBinding``, ``AclBindingFilter`` and the rules of ``AclControlManager`` for them, with
the numbers of the wire protocol. It knows no request and no state.
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

#: Resource types, pattern types, operations and permission types have the same numbers for unknown,
#: and for any of them, which filters alone may contain.
UNKNOWN: Final = ResourceType.UNKNOWN
ANY: Final = ResourceType.ANY
#: In a filter: every pattern that covers a resource of this name.
MATCH: Final = PatternType.MATCH
_TYPES: Final = frozenset(RESOURCE_TYPES.values())
_TYPE_NAMES: Final = {int(one): one.name for one in ResourceType}
_PATTERNS: Final = frozenset({LITERAL, PREFIXED})
_OPERATIONS: Final = frozenset(one for one in AclOperation if one > AclOperation.ANY)
_PERMISSIONS: Final = frozenset((PermissionType.DENY, PermissionType.ALLOW))
_CLUSTER: Final = RESOURCE_TYPES["CLUSTER"]
_CLUSTER_NAME: Final = "kafka-cluster"


class Acl(NamedTuple):
    """An ACL without its id. Equal ACLs are one, as in ``AclControlManager.existingAcls``."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Acl:
        """Return the ACL of a record."""
        # The fields have the names of the record's.
        return cls(*(getattr(record, name) for name in cls._fields))

    def check(self) -> None:
        """Raise ApiError INVALID_REQUEST unless the ACL can be created
        (``AclControlManager.validateNewAcl``).
        """
        # The broker checks the name of the cluster before it forwards the request (AclApis).
        if self.resource_type == _CLUSTER and self.resource_name != _CLUSTER_NAME:
            raise _invalid(f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}")
        # As an empty prefix it would match every resource of its type.
        if not self.resource_name:
            raise _invalid("Invalid empty resource name")
        # ANY and UNKNOWN are for filters: an ACL that has one would match by accident, or never.
        if self.resource_type not in _TYPES:
            raise _invalid(f"Invalid resourceType {_told(self.resource_type)}")
        if self.pattern_type not in _PATTERNS:
            raise _invalid(f"Invalid patternType {_told(self.pattern_type, MATCH)}")
        if self.operation not in _OPERATIONS:
            raise _invalid(f"Invalid operation {_told(self.operation)}")
        if self.permission_type not in _PERMISSIONS:
            raise _invalid(f"Invalid permissionType {_told(self.permission_type)}")
        # ``StandardAcl.kafkaPrincipal`` cannot read such a principal: every Kafka node that loads
        # the record would fail, so it must not get into the log.
        if ":" not in self.principal:
            raise _invalid(
                f"Could not parse principal from `{self.principal}` (no colon is present separating"
                " the principal type from the principal name)"
            )

    def check_host(self, level: int) -> None:
        """Raise ApiError unless an ACL can have this host at ``level`` of metadata.version."""
        if not self.host:
            raise _invalid("Host pattern cannot be null or empty")
        # Any other text is compared with the client's address as it is, so that nothing is to be
        # checked.
        if "/" not in self.host:
            return
        if not is_cidr_acl_supported(level):
            # An authorizer of an older release takes the pattern for an address, which matches no
            # client: a DENY would have no effect.
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                "CIDR-based ACL host patterns require metadata version "
                f"{MetadataVersion.IBP_4_4_IV1.release} or higher.",
            )
        try:
            # Here and not in the authorizers: each of them would have to leave out a range that it
            # cannot read.
            parse_cidr(self.host)
        except ValueError as error:
            raise _invalid(f"Invalid CIDR notation '{self.host}': {error}") from None


class AclFilter(NamedTuple):
    """A filter of ACLs; None and ANY match everything. Field names are those of the requests."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

    @classmethod
    def of(cls, asked: AclFilter | object) -> AclFilter:
        """Return the filter of a DescribeAcls request, or of an element of DeleteAcls."""
        return cls(*(getattr(asked, name) for name in cls._fields))

    def says_unknown(self) -> bool:
        """Whether one of the numbers is 0 (UNKNOWN), which no client may send."""
        return UNKNOWN in (
            self.resource_type_filter,
            self.pattern_type_filter,
            self.operation,
            self.permission_type,
        )

    def check(self) -> None:
        """Raise ApiError INVALID_REQUEST for a number that Kafka does not define
        (``AclControlManager.validateFilter``).

        A newer client may use it to match fewer ACLs than a filter that ignores the number.
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
        """Whether the filter matches ``acl``."""
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
        # Except for MATCH the name is compared with the pattern itself: a LITERAL filter "a" does
        # not find the prefix "a" nor the wildcard (ResourcePatternFilter.matches).
        if wanted != MATCH:
            return name == acl.resource_name
        if acl.pattern_type == PREFIXED:
            return name.startswith(acl.resource_name)
        # A literal "*" stands for all names, and in a prefix it is a character like others.
        return acl.resource_name in (name, WILDCARD)


def resource_type_name(number: int) -> str:
    """Return the name of a resource type, ``UNKNOWN`` for a number that Kafka does not define."""
    return _TYPE_NAMES.get(number, ResourceType.UNKNOWN.name)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _told(number: int, *known: int) -> str:
    if number == ANY:
        return "ANY"
    return "MATCH" if number in known else "UNKNOWN"
