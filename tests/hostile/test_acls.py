"""Requests in a cluster with many ACLs: topics of a principal that has none, and wide filters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.security.acls import ALLOW, LITERAL, RESOURCE_TYPES
from gateway.security.standard_authorizer import OPERATIONS, STANDARD_AUTHORIZER
from kwire.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.messages.describe_acls_request import DescribeAclsRequest
from kwire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kwire.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.hostile.bystander import (
    assert_others_undisturbed,
    attacked_quorum,
    bystander,
    listener_port,
    with_listener,
)
from tests.waiting import PATIENCE_S
from tools.kafka_files import Node
from tools.own_quorum import OwnCluster
from tools.wire_client import WireClient

ACLS, NAMES = 10_000, 14_000
PROPERTIES = {
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="secret";'
    ),
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    with attacked_quorum(PROPERTIES, node_properties=with_listener("SASL")) as cluster:
        with WireClient(cluster.wait_for_leader().broker_address) as admin:
            for first in range(0, ACLS, 2_500):
                creations = [
                    _on_topic("*", f"User:u{number}") for number in range(first, first + 2_500)
                ]
                answer = admin.call(CreateAclsRequest(creations=creations), 3)
                assert {result.error_code for result in answer.results} == {0}
        yield cluster


def _on_topic(name: str, principal: str) -> AclCreation:
    return AclCreation(
        resource_type=RESOURCE_TYPES["TOPIC"],
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal=principal,
        host="*",
        operation=OPERATIONS["READ"],
        permission_type=ALLOW,
    )


def _authenticated(node: Node) -> WireClient:
    client = WireClient(f"127.0.0.1:{listener_port(node, 'SASL')}")
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = client.call(SaslAuthenticateRequest(auth_bytes=b"\0eve\0secret"), 2)
    assert answer.error_code == 0
    return client


def test_metadata_of_many_names_under_many_acls_leaves_others_undisturbed(
    cluster: OwnCluster,
) -> None:
    names = [MetadataRequestTopic(name=f"t-{number}") for number in range(NAMES)]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    with bystander(cluster) as seen, _authenticated(cluster.wait_for_leader()) as eve:
        for _ in range(2):
            answer = eve.call(request, 12)
            assert {topic.error_code for topic in answer.topics} == {29}
    seen.assert_undisturbed()


def test_wide_filters_over_many_acls_leave_others_undisturbed(cluster: OwnCluster) -> None:
    """Each filter looks at every ACL; 150 of them at 1,500,000."""
    wide: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    doomed = [
        DeleteAclsFilter(**wide, principal_filter=f"User:nobody-{number}") for number in range(150)
    ]

    def attack() -> None:
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as admin:
            described = admin.call(DescribeAclsRequest(**wide, principal_filter=None), 3)
            assert len(described.resources[0].acls) == ACLS
            deleted = admin.call(DeleteAclsRequest(filters=doomed), 3)
            assert {len(result.matching_acls) for result in deleted.filter_results} == {0}

    assert_others_undisturbed(cluster, attack)


def test_many_changes_of_acls_between_two_requests_leave_others_undisturbed(
    cluster: OwnCluster,
) -> None:
    rounds = itertools.count()

    def attack() -> None:
        names = [f"changed-{next(rounds)}-{number}" for number in range(3)]
        with WireClient(
            cluster.wait_for_leader().broker_address, timeout_s=4 * PATIENCE_S
        ) as admin:
            for name in names:
                creations = [_on_topic(name, f"User:u{number}") for number in range(9_000)]
                answer = admin.call(CreateAclsRequest(creations=creations), 3)
                assert {result.error_code for result in answer.results} == {0}
            for node in cluster.nodes:
                with _authenticated(node) as eve:
                    eve.call(MetadataRequest(topics=None), 12)
            for name in names:
                doomed = DeleteAclsFilter(
                    resource_type_filter=RESOURCE_TYPES["TOPIC"],
                    resource_name_filter=name,
                    pattern_type_filter=LITERAL,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
                deleted = admin.call(DeleteAclsRequest(filters=[doomed]), 3)
                assert len(deleted.filter_results[0].matching_acls) == 9_000

    assert_others_undisturbed(cluster, attack, memory_mib=128)
