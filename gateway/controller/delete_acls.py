"""DeleteAcls: all that a filter finds is removed (``AclControlManager``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from gateway.controller.acl_filters import MATCH, Acl, AclFilter
from gateway.controller.case import Case, Verdict
from gateway.controller.errors import ApiError, Error
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.security.acls import WILDCARD
from kwire.message import Message
from kwire.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsResponse
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.messages.delete_acls_request import DeleteAclsRequest
    from kwire.uuid import Uuid

#: How many ACLs one request may have looked at: about a second's work, in which nothing else is decided.
_LOOKS_MAX: Final = 2_000_000

#: Those that a filter finds, by id.
_Found = dict["Uuid", Acl]


def delete_acls(request: DeleteAclsRequest, case: Case) -> Verdict:
    """Every filter says what it found, also what another one found before it. Raises ApiError."""
    if not case.may_on_cluster("ALTER"):
        raise ApiError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    search = _Search(case.image.acls)
    doomed: _Found = {}
    results, told = [], 0
    for asked in request.filters:
        result = _result(AclFilter.of(asked), search, doomed)
        told += len(result.matching_acls)
        if told > OPERATION_RECORDS_MAX:
            raise _too_much(f"find more than {OPERATION_RECORDS_MAX} ACLs, the most that one request may delete")
        results.append(result)
    records: list[Message] = [RemoveAccessControlEntryRecord(id=id) for id in doomed]
    return Verdict(records, DeleteAclsResponse(filter_results=results))


def _result(wanted: AclFilter, search: _Search, doomed: _Found) -> DeleteAclsFilterResult:
    try:
        wanted.check()
    except ApiError as refusal:
        return DeleteAclsFilterResult(error_code=refusal.error, error_message=refusal.message)
    found = search.find(wanted)
    doomed.update(found)
    return DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for acl in found.values()],
    )


class _Search:
    """Finds ACLs for many filters, by the name that a filter gives where it gives one."""

    def __init__(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        self._acls = acls
        self._by_name: dict[str, list[AccessControlEntryRecord]] = {}
        self._found: dict[AclFilter, _Found] = {}
        self._looks = 0
        for acl in acls.values():
            self._by_name.setdefault(acl.resource_name, []).append(acl)
        self._longest = max(map(len, self._by_name), default=0)

    def find(self, wanted: AclFilter) -> _Found:
        """The ACLs that ``wanted`` matches. Raises ApiError when too many were looked at."""
        if wanted not in self._found:
            self._found[wanted] = {acl.id: Acl.of(acl) for acl in self._candidates(wanted) if wanted.matches(acl)}
        return self._found[wanted]

    def _candidates(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord]:
        name = wanted.resource_name_filter
        if name is None:
            self._look(len(self._acls))
            yield from self._acls.values()
            return
        names = {name}
        if wanted.pattern_type_filter == MATCH:  # whatever covers the name: a prefix of it, or all
            names |= {WILDCARD, *(name[:length] for length in range(1, min(len(name), self._longest + 1)))}
        self._look(len(names))
        for one in names:
            acls = self._by_name.get(one, [])
            self._look(len(acls))
            yield from acls

    def _look(self, count: int) -> None:
        self._looks += count
        if self._looks > _LOOKS_MAX:
            raise _too_much(f"have more than {_LOOKS_MAX} ACLs looked at, the most that one request may; name resources")


def _too_much(what: str) -> ApiError:
    return ApiError(Error.POLICY_VIOLATION, f"These filters {what}. Split it.")
