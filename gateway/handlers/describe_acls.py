"""DescribeAcls (key 29): the ACLs in the log that a filter finds; those of our own cluster, or of the observed one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.controller.acl_filters import Acl, AclFilter
from gateway.handlers.access import Operation, may_on_cluster
from gateway.handlers.acls import NO_AUTHORIZER, acls_in_force
from gateway.handlers.errors import ErrorCode
from kwire.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway.handlers.context import Context
    from kwire.messages.describe_acls_request import DescribeAclsRequest

API_KEY: Final = 29
VERSIONS: Final = range(1, 4)


def handle(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """ACLs by resource. SECURITY_DISABLED where no authorizer goes by any, INVALID_REQUEST for a filter with a 0 (UNKNOWN)."""
    if not may_on_cluster(context, Operation.DESCRIBE):
        return _failed(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    image = acls_in_force(context)
    if image is None:
        return _failed(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    wanted = AclFilter.of(request)
    if wanted.says_unknown():
        return _failed(ErrorCode.INVALID_REQUEST, f"The filter contains UNKNOWN elements: {wanted}")
    found = {Acl.of(acl) for acl in image.acls.values() if wanted.matches(acl)}
    return DescribeAclsResponse(resources=_by_resource(found))


def _failed(error: ErrorCode, why: str) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=error, error_message=why)


def _by_resource(acls: Iterable[Acl]) -> list[DescribeAclsResource]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in sorted(acls):
        key = acl.resource_type, acl.resource_name, acl.pattern_type
        if key not in resources:
            resources[key] = DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type
            )
        resources[key].acls.append(
            AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type)
        )
    return list(resources.values())
