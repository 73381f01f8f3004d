"""Rules of ACLs (KIP-11, KIP-140, KIP-290). A server without an authorizer refuses all of them."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.probe import Probe
from kwire.conformance.rule import Changes, Family
from kwire.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.describe_acls_request import DescribeAclsRequest
from kwire.protocol import (
    AclOperation,
    ApiKey,
    ErrorCode,
    PatternType,
    PermissionType,
    ResourceType,
    error_name,
)

_APIS: Final = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)
_REFUSED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION)
_PRINCIPAL: Final = "User:kwire-conform"

FAMILY: Final = Family("acls", "ACLs", apis=_APIS, changes=Changes.OWN)


def _acl(name: str, **more: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": _PRINCIPAL,
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": PermissionType.ALLOW,
        **more,
    }
    return AclCreation(resource_name=name, **values)


def _filter(form: type[Any], name: str | None, **more: Any) -> Any:
    values: dict[str, Any] = {
        "resource_type_filter": ResourceType.TOPIC,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": PermissionType.ANY,
        **more,
    }
    return form(resource_name_filter=name, **values)


def _create(probe: Probe, acl: AclCreation) -> int:
    name = acl.resource_name
    probe.session.on_end(f"ACLs of {name}", lambda: _remove(probe, name))
    [found] = probe.call(CreateAclsRequest(creations=[acl])).results
    if found.error_code == ErrorCode.SECURITY_DISABLED:
        probe.not_applicable("the server has no authorizer")
    if found.error_code in _REFUSED:
        probe.not_applicable(f"the server creates no ACL: {error_name(found.error_code)}")
    code: int = found.error_code
    return code


def _remove(probe: Probe, name: str) -> None:
    with probe.other_probe() as other:
        other.call(DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, name)]))


def _described(probe: Probe, name: str | None, **more: Any) -> list[Any]:
    answer = probe.call(_filter(DescribeAclsRequest, name, **more))
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    return [
        (resource.resource_name, resource.pattern_type, acl.principal, acl.host, acl.operation)
        for resource in answer.resources
        for acl in resource.acls
    ]


@FAMILY.rule(
    "without-authorizer", source="AclApis", section="SECURITY_DISABLED", changes=Changes.NOTHING
)
def without_authorizer(probe: Probe) -> None:
    """A server without an authorizer answers DescribeAcls with SECURITY_DISABLED."""
    answer = probe.call(_filter(DescribeAclsRequest, "kwire-conform-none"))
    if answer.error_code == ErrorCode.NONE:
        probe.not_applicable("the server has an authorizer")
    probe.expect_error(
        answer.error_code, ErrorCode.SECURITY_DISABLED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )


@FAMILY.rule("created-is-described", source="KIP-140", section="CreateAcls", since="0.11")
def created_is_described(probe: Probe) -> None:
    """An ACL that was created is described as it was given."""
    name = probe.session.new_name()
    probe.expect_error(_create(probe, _acl(name)), ErrorCode.NONE)
    wanted = [(name, PatternType.LITERAL, _PRINCIPAL, "*", AclOperation.READ)]
    probe.until(lambda: _described(probe, name) == wanted, f"the ACL of {name}")


@FAMILY.rule("created-twice", source="KIP-140", section="CreateAcls", since="0.11")
def created_twice(probe: Probe) -> None:
    """An ACL that is created twice is there once, without an error."""
    name = probe.session.new_name()
    for _ in range(2):
        probe.expect_error(_create(probe, _acl(name)), ErrorCode.NONE)
    probe.until(lambda: len(_described(probe, name)) == 1, f"one ACL of {name}")


@FAMILY.rule("prefix-matches", source="KIP-290", section="MATCH", since="2.0")
def prefix_matches(probe: Probe) -> None:
    """A filter of pattern type MATCH finds prefixed ACLs of names that begin with them."""
    name = probe.session.new_name()
    acl = _acl(name, resource_pattern_type=PatternType.PREFIXED)
    probe.expect_error(_create(probe, acl), ErrorCode.NONE)
    probe.until(
        lambda: bool(_described(probe, f"{name}-more", pattern_type_filter=PatternType.MATCH)),
        "the prefixed ACL by MATCH",
    )
    found = _described(probe, f"{name}-more", pattern_type_filter=PatternType.LITERAL)
    probe.expect(not found, "LITERAL finds an ACL of a prefix")


@FAMILY.rule("deleted-is-named", source="KIP-140", section="DeleteAcls", since="0.11")
def deleted_is_named(probe: Probe) -> None:
    """DeleteAcls names the ACLs that it deleted, and they are gone."""
    name = probe.session.new_name()
    probe.expect_error(_create(probe, _acl(name)), ErrorCode.NONE)
    probe.until(lambda: bool(_described(probe, name)), f"the ACL of {name}")
    answer = probe.call(DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, name)]))
    [found] = answer.filter_results
    probe.expect_error(found.error_code, ErrorCode.NONE)
    names = [acl.resource_name for acl in found.matching_acls]
    probe.expect(names == [name], f"the ACLs of {names} were deleted")
    probe.until(lambda: not _described(probe, name), f"no ACL of {name}")


@FAMILY.rule("delete-nothing", source="KIP-140", section="DeleteAcls", since="0.11")
def delete_nothing(probe: Probe) -> None:
    """A filter that matches no ACL deletes none, without an error."""
    _create(probe, _acl(probe.session.new_name()))
    name = probe.session.new_name()
    answer = probe.call(DeleteAclsRequest(filters=[_filter(DeleteAclsFilter, name)]))
    [found] = answer.filter_results
    probe.expect_error(found.error_code, ErrorCode.NONE)
    probe.expect(not found.matching_acls, "ACLs of another name were deleted")


@FAMILY.rule("empty-name", source="AclApis", section="INVALID_REQUEST")
def empty_name(probe: Probe) -> None:
    """An ACL of a resource without a name is refused: INVALID_REQUEST."""
    _create(probe, _acl(probe.session.new_name()))
    [found] = probe.call(CreateAclsRequest(creations=[_acl("")])).results
    probe.expect_error(found.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("cluster-name", source="AclApis", section="INVALID_REQUEST")
def cluster_name(probe: Probe) -> None:
    """An ACL of the cluster that is not named kafka-cluster is refused: INVALID_REQUEST."""
    _create(probe, _acl(probe.session.new_name()))
    acl = _acl("other-cluster", resource_type=ResourceType.CLUSTER, operation=AclOperation.ALTER)
    [found] = probe.call(CreateAclsRequest(creations=[acl])).results
    probe.expect_error(found.error_code, ErrorCode.INVALID_REQUEST)
