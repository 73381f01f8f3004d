"""DescribeAcls (key 29): returns the ACLs in the log that match a filter.

They are those of this node's own cluster, or of the observed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.base.error_text import error_text
from gateway.controller.acl_filters import Acl, AclFilter
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.acls import NO_AUTHORIZER, acls_in_force
from gateway.ports.streamed import Streamed, filled, respond
from kwire.messages.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.handlers.context import Context
    from kwire.message import Message
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.messages.describe_acls_request import DescribeAclsRequest

API_KEY: Final = ApiKey.DESCRIBE_ACLS
VERSIONS: Final = range(1, 4)

#: More resources than this are returned unsorted: sorting them takes 5 ms.
_SORTED_MAX: Final = 5000


def handle(request: DescribeAclsRequest, context: Context) -> Message | Streamed:
    """Return ACLs by resource. SECURITY_DISABLED if no authorizer reads ACLs, INVALID_REQUEST for a
    filter with a 0 (UNKNOWN).
    """
    if not may_on_cluster(context, Operation.DESCRIBE):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    image = acls_in_force(context)
    if image is None:
        return _failed(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    wanted = AclFilter.of(request)
    if wanted.says_unknown():
        return _failed(ErrorCode.INVALID_REQUEST, f"The filter contains UNKNOWN elements: {wanted}")
    return respond(
        DescribeAclsResponse(),
        "resources",
        _resources(list(image.acls.values()), wanted),
        len(image.acls),
    )


def _failed(error: ErrorCode, why: str) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=error_text(why))


def _resources(
    records: list[AccessControlEntryRecord], wanted: AclFilter
) -> Iterator[DescribeAclsResource | Streamed | None]:
    """Yield the ACLs that match, by resource; sorted if they are few."""
    found: dict[tuple[int, str, int], set[Acl]] = {}
    for record in records:
        if wanted.matches(record):
            acl = Acl.of(record)
            found.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), set()).add(
                acl
            )
        yield None
    for key in sorted(found) if len(found) <= _SORTED_MAX else found:
        kind, name, pattern = key
        resource = DescribeAclsResource(
            resource_type=kind, resource_name=name, pattern_type=pattern
        )
        acls = found[key]
        yield filled(
            resource, "acls", map(_description, sorted(acls) if len(acls) <= _SORTED_MAX else acls)
        )


def _description(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
