"""DeleteAcls: all that a filter finds is removed (``AclControlManager``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from gateway.controller.acl_filters import Acl, AclFilter
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.records import OPERATION_RECORDS_MAX
from kwire.message import Message
from kwire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from kwire.messages.delete_acls_request import DeleteAclsRequest
    from kwire.uuid import Uuid

#: Those that a filter finds, by id.
_Found = dict["Uuid", Acl]


def delete_acls(request: DeleteAclsRequest, case: Case) -> Verdict:
    """Every filter says what it found, also what another one found before it. Raises ApiError."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")

    @cache
    def find(wanted: AclFilter) -> _Found:
        wanted.check()
        return {id: Acl.of(acl) for id, acl in case.image.acls.items() if wanted.matches(acl)}

    doomed: _Found = {}
    results, told = [], 0
    for asked in request.filters:
        result = _result(AclFilter.of(asked), find, doomed)
        told += len(result.matching_acls)
        if told > OPERATION_RECORDS_MAX:
            raise ApiError(
                Error.POLICY_VIOLATION,
                f"These filters find more than {OPERATION_RECORDS_MAX} ACLs, the most that one request may delete. Split it.",
            )
        results.append(result)
    records: list[Message] = [RemoveAccessControlEntryRecord(id=id) for id in doomed]
    return Verdict(records, DeleteAclsResponse(filter_results=results))


def _result(wanted: AclFilter, find: Callable[[AclFilter], _Found], doomed: _Found) -> DeleteAclsFilterResult:
    try:
        found = find(wanted)
    except ApiError as refusal:
        return DeleteAclsFilterResult(error_code=refusal.error, error_message=refusal.message)
    doomed.update(found)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for acl in found.values()],
    )
