"""DeleteAcls: removes all ACLs that filters match (``AclControlManager.deleteAcls``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from gateway.base.slices import Slices, pieces
from gateway.controller.acl_filters import MATCH, Acl, AclFilter, resource_type_name
from gateway.controller.admin_api import AdminApi, Refusal, Requirement, Resource, SlicedDecision
from gateway.controller.errors import ApiError
from gateway.controller.records import OPERATION_RECORDS_MAX
from gateway.controller.request_context import ControllerRequestContext, ControllerResult
from gateway.ports.streamed import Streamed, respond
from gateway.security.acls import WILDCARD
from kwire.message import Message
from kwire.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kwire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kwire.protocol import ApiKey, ErrorCode

if TYPE_CHECKING:
    from kwire.messages.access_control_entry_record import AccessControlEntryRecord
    from kwire.messages.delete_acls_request import DeleteAclsRequest
    from kwire.uuid import Uuid

#: How many ACLs one request may have looked at: about a second of work. It is done in slices, but
#: no other request is decided in the meantime.
_LOOKS_MAX: Final = 2_000_000
#: How many ACLs are looked at between two slices: less than 1 ms.
_LOOKS_PER_SLICE: Final = 256

#: Those that a filter finds, by id.
_Found = dict["Uuid", Acl]


def delete_acls(request: DeleteAclsRequest, context: ControllerRequestContext) -> SlicedDecision:
    """Each filter has a result with all ACLs that match it, those of filters before it too.

    Raises ApiError where the filters match, or look at, more ACLs than one request may.
    """
    # Built for each request: ACLs are deleted seldom, and an index kept up to date would cost every
    # change.
    search = _Search(context.image.acls)
    yield from search.index()
    doomed: _Found = {}
    results, matches = [], 0
    for asked in request.filters:
        result = yield from _result(AclFilter.of(asked), search, doomed)
        yield
        # ACLs that two filters match count twice: each result lists them.
        matches += len(result.matching_acls)
        if matches > OPERATION_RECORDS_MAX:
            raise _too_many_matches()
        results.append(result)
    records: list[Message] = [RemoveAccessControlEntryRecord(id=id) for id in doomed]
    return ControllerResult(records, DeleteAclsResponse(filter_results=results))


def _result(wanted: AclFilter, search: _Search, doomed: _Found) -> Slices[DeleteAclsFilterResult]:
    try:
        # The filter alone is refused: the others are carried out.
        wanted.check()
    except ApiError as refusal:
        return DeleteAclsFilterResult(error_code=refusal.error, error_message=refusal.message)
    found = yield from search.find(wanted)
    doomed.update(found)
    result = DeleteAclsFilterResult(error_message=None)
    for some in pieces(found.values(), _LOOKS_PER_SLICE):
        result.matching_acls += [
            DeleteAclsMatchingAcl(error_message=None, **acl._asdict()) for acl in some
        ]
        yield
    return result


class _Search:
    """Finds ACLs for many filters, by resource name where a filter gives one. Works in slices."""

    def __init__(self, acls: Mapping[Uuid, AccessControlEntryRecord]) -> None:
        self._acls = acls
        self._by_name: dict[str, list[AccessControlEntryRecord]] = {}
        self._found: dict[AclFilter, _Found] = {}
        self._looks = 0
        #: Lengths of the names of ACLs: no other beginning of a name is one of them.
        self._lengths: list[int] = []

    def index(self) -> Slices[None]:
        """Sort all ACLs by resource name. To be run once, before :meth:`find`."""
        for count, acl in enumerate(self._acls.values()):
            self._by_name.setdefault(acl.resource_name, []).append(acl)
            if count % _LOOKS_PER_SLICE == 0:
                yield
        self._lengths = sorted(set(map(len, self._by_name)))

    def find(self, wanted: AclFilter) -> Slices[_Found]:
        """The ACLs that ``wanted`` matches. Raises ApiError when too many were looked at."""
        if wanted not in self._found:
            found: _Found = {}
            for count, acl in enumerate(self._candidates(wanted)):
                if acl is not None and wanted.matches(acl):
                    found[acl.id] = Acl.of(acl)
                # During the search: one filter may match every ACL of the cluster.
                if len(found) > OPERATION_RECORDS_MAX:
                    raise _too_many_matches()
                if count % _LOOKS_PER_SLICE == 0:
                    yield
            # A filter that the request repeats is not searched for again.
            self._found[wanted] = found
        return self._found[wanted]

    def _candidates(self, wanted: AclFilter) -> Iterator[AccessControlEntryRecord | None]:
        """Yield the ACLs to look at, and None after a search that finds none."""
        name = wanted.resource_name_filter
        # No name to look up: every ACL is a candidate.
        if name is None:
            self._look(len(self._acls))
            yield from self._acls.values()
            return
        if wanted.pattern_type_filter != MATCH:
            yield from self._named(name)
            return
        # Patterns that cover the name, instead of all ACLs: a prefix that covers the name is one of
        # its beginnings. They are made one by one: all of a long name's take gigabytes.
        for length in self._lengths:
            if length <= len(name):
                yield from self._named(name[:length]) or (None,)
        if not name.startswith(WILDCARD):
            yield from self._named(WILDCARD)

    def _named(self, name: str) -> Sequence[AccessControlEntryRecord]:
        acls = self._by_name.get(name, ())
        self._look(1 + len(acls))
        return acls

    def _look(self, count: int) -> None:
        self._looks += count
        if self._looks > _LOOKS_MAX:
            raise _too_much(
                f"have more than {_LOOKS_MAX} ACLs looked at, the most that one request may; "
                "name resources"
            )


def _too_many_matches() -> ApiError:
    return _too_much(
        f"find more than {OPERATION_RECORDS_MAX} ACLs, the most that one request may delete"
    )


def _too_much(what: str) -> ApiError:
    return ApiError(ErrorCode.POLICY_VIOLATION, f"These filters {what}. Split it.")


def _refuse(request: DeleteAclsRequest, refusal: Refusal) -> Message | Streamed:
    results = (
        DeleteAclsFilterResult(error_code=refusal.error, error_message=refusal.message)
        for _ in request.filters
    )
    return respond(DeleteAclsResponse(), "filter_results", results, len(request.filters))


def _resources(request: DeleteAclsRequest) -> Iterator[Resource]:
    for wanted in request.filters:
        yield resource_type_name(wanted.resource_type_filter), wanted.resource_name_filter


API: Final = AdminApi(
    key=ApiKey.DELETE_ACLS,
    operation="deleteAcls",
    decide=delete_acls,
    refuse=_refuse,
    cluster_operation="ALTER",
    resources=_resources,
    requirement=Requirement.AUTHORIZER,
)
