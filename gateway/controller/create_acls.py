"""CreateAcls: rules of who may do what, kept in the log for every authorizer of the cluster (``AclControlManager``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.controller.acl_filters import Acl
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from kwire.message import Message
from kwire.messages.access_control_entry_record import AccessControlEntryRecord
from kwire.messages.create_acls_response import AclCreationResult, CreateAclsResponse

if TYPE_CHECKING:
    from kwire.messages.create_acls_request import AclCreation, CreateAclsRequest
    from kwire.uuid import Uuid


def create_acls(request: CreateAclsRequest, case: Case) -> Verdict:
    """Each fares on its own; one that is there already is a success without a record. Raises ApiError."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    made: dict[Acl, Uuid] = {}
    results = [_create(creation, made, case) for creation in request.creations]
    records: list[Message] = [AccessControlEntryRecord(id=id, **acl._asdict()) for acl, id in made.items()]
    return Verdict(records, CreateAclsResponse(results=results))


def _create(creation: AclCreation, made: dict[Acl, Uuid], case: Case) -> AclCreationResult:
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
        acl.check()
    except ApiError as refusal:
        return AclCreationResult(error_code=refusal.error, error_message=refusal.message)
    if acl not in made and not case.state.has_acl(acl):
        made[acl] = _new_id(case)
    return AclCreationResult()


def _new_id(case: Case) -> Uuid:
    while (made := case.new_id()) in case.image.acls:
        pass
    return made
