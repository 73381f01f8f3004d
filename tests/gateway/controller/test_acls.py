"""CreateAcls and DeleteAcls: validation of ACLs, matching of filters, equal ACLs, and limits."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.controller.acl_filters import Acl, AclFilter
from gateway.controller.records import OPERATION_RECORDS_MAX
from kwire.protocol import ErrorCode
from tests.gateway.controller.cluster import Cluster, made
from tests.gateway.steps import calls_of

ANY, MATCH, LITERAL, PREFIXED = range(1, 5)
TOPIC, GROUP, CLUSTER = 2, 3, 4
READ, WRITE = 3, 4
DENY, ALLOW = 2, 3


def acl(**more: Any) -> dict[str, Any]:
    plain = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:ann",
    }
    return {**plain, "host": "*", "operation": READ, "permission_type": ALLOW, **more}


def wanted(**more: Any) -> dict[str, Any]:
    anything: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
    }
    return (
        anything
        | {"principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY}
        | more
    )


def create(cluster: Cluster, *acls: dict[str, Any], **more: Any) -> list[int]:
    return [
        one.error_code
        for one in cluster.ask(made("CreateAclsRequest", creations=list(acls)), **more).results
    ]


def delete(cluster: Cluster, *filters: dict[str, Any], **more: Any) -> Any:
    return cluster.ask(made("DeleteAclsRequest", filters=list(filters)), **more).filter_results


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"resource_type": CLUSTER}, "only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "empty resource name"),
        ({"resource_type": 0}, "resourceType UNKNOWN"),
        ({"resource_type": ANY}, "resourceType ANY"),
        ({"resource_type": 8}, "resourceType UNKNOWN"),
        ({"resource_pattern_type": ANY}, "patternType ANY"),
        ({"resource_pattern_type": MATCH}, "patternType MATCH"),
        ({"resource_pattern_type": 5}, "patternType UNKNOWN"),
        ({"operation": ANY}, "operation ANY"),
        ({"operation": 16}, "operation UNKNOWN"),
        ({"permission_type": ANY}, "permissionType ANY"),
        ({"permission_type": 4}, "permissionType UNKNOWN"),
        ({"principal": "ann"}, "Could not parse principal"),
        ({"host": ""}, "Host pattern cannot be null or empty"),
    ],
)
def test_invalid_acl_is_refused_with_kafkas_reason(fault: dict[str, Any], why: str) -> None:
    cluster = Cluster()
    bad, good = cluster.ask(made("CreateAclsRequest", creations=[acl(**fault), acl()])).results
    assert bad.error_code == ErrorCode.INVALID_REQUEST and why in bad.error_message
    assert good.error_code == ErrorCode.NONE and len(cluster.image.acls) == 1, (
        "each fares on its own"
    )


@pytest.mark.parametrize(
    "host", ["10.0.0.0/8", "10.1.2.3/32", "0.0.0.0/0", "fd00::/8", "::/0", "2001:db8::1/+64"]
)
def test_range_of_hosts_is_accepted_from_4_4_iv1_on(host: str) -> None:
    assert create(Cluster(level=32), acl(host=host)) == [0]
    old = Cluster(level=31)
    (result,) = old.ask(made("CreateAclsRequest", creations=[acl(host=host)])).results
    assert (result.error_code, result.error_message) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.",
    )
    assert not old.image.acls


# The response of a Kafka 4.4.0 controller to CreateAcls with each host.
@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("10.0.0.0/33", "Value [33] not in range [0,32]"),
        ("10.0.0.256/8", "Value [256] not in range [0,255]"),
        ("10.0.0/8", "Could not parse [10.0.0/8]"),
        ("10.0.0.0/", "Could not parse [10.0.0.0/]"),
        ("host/8", "Could not parse [host/8]"),
        ("fd00::/129", "Could not parse [fd00::/129] - prefix length must be between 0 and 128"),
        ("fd00::/x", "Could not parse [fd00::/x] - invalid prefix length"),
        ("fe80::1%eth9/64", "Could not parse [fe80::1%eth9]"),
        ("::ffff:10.0.0.1/96", "Could not parse [::ffff:10.0.0.1] - not an IPv6 address"),
    ],
)
def test_malformed_range_of_hosts_is_refused_with_kafkas_reason(host: str, why: str) -> None:
    (result,) = Cluster(level=33).ask(made("CreateAclsRequest", creations=[acl(host=host)])).results
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        f"Invalid CIDR notation '{host}': {why}",
    )


def test_equal_acls_make_one_record() -> None:
    cluster = Cluster()
    assert create(cluster, acl(), acl(), acl(operation=WRITE)) == [0, 0, 0]
    assert len(cluster.image.acls) == 2
    before = len(cluster.log)
    assert create(cluster, acl()) == [0]
    assert len(cluster.log) == before
    cluster.elect()
    assert create(cluster, acl()) == [0]
    assert len(cluster.image.acls) == 2, "those of the committed log count, too"


def test_deleted_acl_can_be_created_again() -> None:
    cluster = Cluster()
    create(cluster, acl())
    delete(cluster, wanted())
    assert not cluster.image.acls
    assert create(cluster, acl()) == [0] and len(cluster.image.acls) == 1


def test_acl_that_the_log_has_twice_exists_until_both_are_deleted() -> None:
    cluster = Cluster()
    create(cluster, acl())
    (record,) = cluster.image.acls.values()
    twin = record.copy(id=cluster.controller._new_id())
    state = cluster.controller._state
    assert state is not None
    state.apply(twin)
    state.apply(made("RemoveAccessControlEntryRecord", id=twin.id))
    assert state.has_acl(Acl.of(record))


def test_every_filter_has_its_own_matches() -> None:
    cluster = Cluster()
    create(
        cluster, acl(), acl(resource_type=GROUP), acl(principal="User:bob", permission_type=DENY)
    )
    found = delete(
        cluster,
        wanted(resource_type_filter=TOPIC),
        wanted(principal_filter="User:bob"),
        wanted(host_filter="h"),
    )
    assert [len(one.matching_acls) for one in found] == [2, 1, 0]
    (bob,) = found[1].matching_acls
    assert (bob.resource_name, bob.principal, bob.permission_type, bob.error_code) == (
        "orders",
        "User:bob",
        DENY,
        0,
    )
    assert [one.resource_type for one in cluster.image.acls.values()] == [GROUP]


@pytest.mark.parametrize(
    "fault",
    [
        {"resource_type_filter": 0},
        {"pattern_type_filter": 9},
        {"operation": 99},
        {"permission_type": 0},
    ],
)
def test_filter_with_an_unknown_number_deletes_nothing(fault: dict[str, int]) -> None:
    cluster = Cluster()
    create(cluster, acl(), acl(resource_type=GROUP))
    bad, good = delete(cluster, wanted(**fault), wanted(resource_type_filter=GROUP))
    assert (bad.error_code, bad.matching_acls) == (ErrorCode.INVALID_REQUEST, [])
    assert good.error_code == 0 and len(cluster.image.acls) == 1


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        (ANY, None, "literal other prefix all"),
        (ANY, "orders", "literal"),
        (LITERAL, "orders", "literal"),
        (LITERAL, "*", "all"),
        (LITERAL, None, "literal other all"),
        (PREFIXED, "or", "prefix"),
        (PREFIXED, "orders", ""),
        (MATCH, "orders", "literal prefix all"),
        (MATCH, "or", "prefix all"),
        (MATCH, "o", "all"),
        (MATCH, "*", "all"),
        (MATCH, None, "literal other prefix all"),
    ],
)
def test_pattern_filters_match_as_in_kafka(pattern: int, name: str | None, found: str) -> None:
    fields = ("User:ann", "*", READ, ALLOW)
    acls = {
        "literal": Acl(TOPIC, "orders", LITERAL, *fields),
        "other": Acl(TOPIC, "bills", LITERAL, *fields),
        "prefix": Acl(TOPIC, "or", PREFIXED, *fields),
        "all": Acl(TOPIC, "*", LITERAL, *fields),
    }
    asked = AclFilter(TOPIC, name, pattern, "User:ann", None, ANY, ANY)
    assert [label for label, one in acls.items() if asked.matches(one)] == found.split()


def test_create_and_delete_need_alter_on_the_cluster() -> None:
    cluster = Cluster()
    forbidden = [("ALTER", "CLUSTER", "kafka-cluster")]
    assert (
        create(cluster, acl(), acl(), forbidden=forbidden)
        == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    )
    (result,) = delete(cluster, wanted(), forbidden=forbidden)
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_one_request_is_limited_to_the_records_of_an_operation() -> None:
    cluster = Cluster()
    many = [acl(resource_name=f"t{number}") for number in range(OPERATION_RECORDS_MAX + 1)]
    assert set(create(cluster, *many)) == {ErrorCode.POLICY_VIOLATION} and not cluster.image.acls
    assert (
        set(create(cluster, *many[1:])) == {ErrorCode.NONE}
        and len(cluster.image.acls) == OPERATION_RECORDS_MAX
    )
    create(cluster, many[0])
    (result,) = delete(cluster, wanted())
    assert (
        result.error_code == ErrorCode.POLICY_VIOLATION
        and len(cluster.image.acls) == OPERATION_RECORDS_MAX + 1
    )
    delete(cluster, wanted(resource_name_filter="t0"))
    assert len(delete(cluster, wanted())[0].matching_acls) == OPERATION_RECORDS_MAX


def deleted_by_name(count: int) -> int:
    """The number of calls that deleting so many ACLs makes, with a filter by name for each."""
    cluster = Cluster()
    create(cluster, *(acl(resource_name=f"t{number}") for number in range(count)))
    filters = [
        wanted(resource_name_filter=f"t{number}", pattern_type_filter=LITERAL)
        for number in range(count)
    ]
    found, calls = calls_of(lambda: delete(cluster, *filters))
    assert [len(one.matching_acls) for one in found] == [1] * count and not cluster.image.acls
    return calls


def test_work_of_filters_by_name_grows_with_their_number_and_not_with_that_of_acls_as_well() -> (
    None
):
    deleted_by_name(10)  # imports
    assert deleted_by_name(5000) < 12 * deleted_by_name(500)


def test_filters_that_need_a_look_at_millions_of_acls_in_all_are_refused() -> None:
    cluster = Cluster()
    count = 5000
    create(cluster, *(acl(resource_name=f"t{number}") for number in range(count)))
    every = [wanted(principal_filter=f"User:{number}") for number in range(2_000_000 // count + 1)]
    assert {one.error_code for one in delete(cluster, *every)} == {ErrorCode.POLICY_VIOLATION}


def test_match_filter_finds_the_prefixes_of_a_name() -> None:
    cluster = Cluster()
    create(
        cluster,
        *(
            acl(resource_name=name, resource_pattern_type=PREFIXED)
            for name in ("o", "or", "orders", "orders-1", "b")
        ),
    )
    create(cluster, acl(resource_name="*"), acl(resource_name="orders"), acl(resource_name="o"))
    (result,) = delete(cluster, wanted(resource_name_filter="orders", pattern_type_filter=MATCH))
    found = sorted((one.pattern_type, one.resource_name) for one in result.matching_acls)
    assert found == [
        (LITERAL, "*"),
        (LITERAL, "orders"),
        (PREFIXED, "o"),
        (PREFIXED, "or"),
        (PREFIXED, "orders"),
    ]
    assert sorted(one.resource_name for one in cluster.image.acls.values()) == [
        "b",
        "o",
        "orders-1",
    ]
