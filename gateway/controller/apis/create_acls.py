"""CreateAcls: writes ACLs to the log, where every authorizer of the cluster reads them
(``AclControlManager.createAcls``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from gateway.controller.acl_filters import Acl, resource_type_name
from gateway.controller.admin_api import AdminApi, Refusal, Requirement, Resource, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.records import check_count
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, respond
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kwire.protocol import ApiKey

if TYPE_CHECKING:
    from kwire.messages.create_acls_request import AclCreation, CreateAclsRequest
    from kwire.uuid import Uuid


def create_acls(request: CreateAclsRequest, context: ControllerRequestContext) -> SlicedDecision:
    """Return a result for each ACL, and the records of the new ones.

    An ACL that exists already is a success without a record.
    """
    made: dict[Acl, Uuid] = {}
    results = []
    for creation in request.creations:
        results.append(_create(creation, made, context))
        # Counted without those that exist: they make no record.
        check_count(made)
        yield
    records: list[Message] = []
    for acl, id in made.items():
        records.append(AccessControlEntryRecord(id=id, **acl._asdict()))
        yield
    return ControllerResult(records, CreateAclsResponse(results=results))


def _create(
    creation: AclCreation, made: dict[Acl, Uuid], context: ControllerRequestContext
) -> AclCreationResult:
    acl = Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    try:
        # Each ACL has its own result: one that is invalid does not refuse the others.
        acl.check()
        acl.check_host(context.level)
    except ApiError as refusal:
        return AclCreationResult(error_code=refusal.error, error_message=refusal.message)
    # ``made`` too: a request may name an ACL twice.
    if acl not in made and not context.state.has_acl(acl):
        # An id of its own, by which a removal names it in the log (``AccessControlEntryRecord``).
        made[acl] = _new_id(context)
    return AclCreationResult()


def _new_id(context: ControllerRequestContext) -> Uuid:
    # AclControlManager.newAclId; new_id looks at the ids of topics only.
    while (made := context.new_id()) in context.image.acls:
        pass
    return made


def _refuse(request: CreateAclsRequest, refusal: Refusal) -> Message | Streamed:
    # One result for each ACL, because the response has no error of its own.
    results = (
        AclCreationResult(error_code=refusal.error, error_message=refusal.message)
        for _ in request.creations
    )
    return respond(CreateAclsResponse(), "results", results, len(request.creations))


def _resources(request: CreateAclsRequest) -> Iterator[Resource]:
    for acl in request.creations:
        yield resource_type_name(acl.resource_type), acl.resource_name


API: Final = AdminApi(
    key=ApiKey.CREATE_ACLS,
    operation="createAcls",
    decide=create_acls,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
    requirement=Requirement.AUTHORIZER,
)
