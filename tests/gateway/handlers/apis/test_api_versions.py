"""ApiVersions: the table as clients see it, and the refusals."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.handlers.apis import api_versions
from gateway.handlers.apis.api_versions import Feature, make_response, unsupported_version_response
from gateway.handlers.table import controller_handlers, handlers
from gateway.security.sasl_session import SaslSession
from kwire.messages.api_versions_request import ApiVersionsRequest
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import (
    CLUSTER_ID,
    NODE,
    MemoryPartition,
    MemoryQuorum,
    World,
    over_the_wire,
)

CLIENT: dict[str, Any] = {
    "client_software_name": "kwire-test",
    "client_software_version": "1.0.0-rc1",
}


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}


@pytest.mark.parametrize("version", api_versions.VERSIONS)
def test_every_version_gives_the_whole_table(version: int) -> None:
    answer = World().ask(api_versions, version, **(CLIENT if version >= 3 else {}))
    assert answer.error_code == 0
    assert ranges(answer) == {key: (h.versions[0], h.versions[-1]) for key, h in handlers().items()}
    assert list(ranges(answer)) == sorted(ranges(answer))


@pytest.mark.parametrize(
    "name", ["", "-x", "x-", "a b", "a_b", "naïve", "x" * 30_000 + "!", ".", "a\n"]
)
@pytest.mark.parametrize("which", ["client_software_name", "client_software_version"])
def test_a_software_name_outside_the_pattern_is_refused(which: str, name: str) -> None:
    answer = World().ask(api_versions, 3, **(CLIENT | {which: name}))
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("name", ["a", "librdkafka", "apache-kafka-java", "1.0", "a-.-b"])
def test_a_software_name_inside_the_pattern_is_accepted(name: str) -> None:
    assert World().ask(api_versions, 4, **(CLIENT | {"client_software_name": name})).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, ErrorCode.NONE),
        (CLUSTER_ID, NODE, ErrorCode.NONE),
        ("other", NODE, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("", NODE, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, 99, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -2, ErrorCode.REBOOTSTRAP_REQUIRED),
        (CLUSTER_ID, -1, ErrorCode.INVALID_REQUEST),
        ("other", -1, ErrorCode.INVALID_REQUEST),
        (None, NODE, ErrorCode.INVALID_REQUEST),
        (None, 99, ErrorCode.INVALID_REQUEST),
    ],
)
def test_client_that_expects_another_broker_is_told_as_by_kafka(
    cluster_id: str | None, node_id: int, error: ErrorCode
) -> None:
    expected: dict[str, Any] = {"cluster_id": cluster_id, "node_id": node_id}
    answer = World().ask(api_versions, 5, **CLIENT, **expected)
    assert (answer.error_code, bool(answer.api_keys)) == (error, not error)


def test_client_that_expects_a_node_of_an_unknown_cluster_is_told_of_the_node_alone() -> None:
    world = World(partition=MemoryPartition(cluster_id=""))
    errors = [
        world.ask(api_versions, 5, **CLIENT, cluster_id="any", node_id=node_id).error_code
        for node_id in (NODE, 99)
    ]
    assert errors == [ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED]


@pytest.mark.parametrize(
    ("node_id", "error"), [(99, ErrorCode.NONE), (-1, ErrorCode.INVALID_REQUEST)]
)
def test_controller_looks_whether_ids_come_together_and_not_which(
    node_id: int, error: ErrorCode
) -> None:
    context = World(quorum=MemoryQuorum(), raft=Node()).context(5, "CONTROLLER")
    context.apis = controller_handlers()
    request = ApiVersionsRequest(**CLIENT, cluster_id="other", node_id=node_id)
    assert over_the_wire(api_versions.handle(request, context), 5).error_code == error


@pytest.mark.parametrize(
    ("is_open", "error"), [(False, ErrorCode.NONE), (True, ErrorCode.REBOOTSTRAP_REQUIRED)]
)
def test_expected_node_is_looked_at_once_the_client_has_authenticated(
    is_open: bool, error: ErrorCode
) -> None:
    context = World().context(5)
    context.sasl = cast(SaslSession, SimpleNamespace(is_open=is_open))
    request = ApiVersionsRequest(**CLIENT, cluster_id="other", node_id=99)
    assert over_the_wire(api_versions.handle(request, context), 5).error_code == error


def test_unsupported_version_is_answered_in_version_0_with_the_table() -> None:
    answer = over_the_wire(unsupported_version_response(), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ranges(answer)[18] == (0, 5)
    assert 6 not in handlers()[18].versions
    assert ranges(answer).keys() == handlers().keys()


def test_features_whose_minimum_is_zero_are_hidden_from_clients_that_would_throw() -> None:
    features = (
        Feature("metadata.version", 7, 30, 29),
        Feature("kraft.version", 0, 1, 1),
        Feature("group.version", 0, 1),
    )
    old = over_the_wire(make_response(features, minimum_zero_understood=False), 3)
    assert [feature.name for feature in old.supported_features] == ["metadata.version"]
    new = over_the_wire(make_response(features, minimum_zero_understood=True), 4)
    assert [(f.name, f.min_version, f.max_version) for f in new.supported_features] == [
        ("metadata.version", 7, 30),
        ("kraft.version", 0, 1),
        ("group.version", 0, 1),
    ]
    finalized = [(f.name, f.min_version_level, f.max_version_level) for f in new.finalized_features]
    assert finalized == [("metadata.version", 29, 29), ("kraft.version", 1, 1)]


def test_response_is_built_once() -> None:
    world = World()
    request = api_versions_request()
    assert api_versions.handle(request, world.context(4)) is api_versions.handle(
        request, world.context(4)
    )


def api_versions_request() -> Any:
    from kwire.messages.api_versions_request import ApiVersionsRequest

    return ApiVersionsRequest(**CLIENT)


@dataclass
class Node:
    """This node's part in a quorum of its own."""

    kraft_version: int = 1


def test_node_of_a_quorum_returns_supported_and_finalized_features() -> None:
    world = World(quorum=MemoryQuorum(), raft=Node())
    assert world.quorum is not None
    world.quorum.image.features.update({"metadata.version": 30, "group.version": 1})
    world.quorum.image.next_offset = 77
    answer = world.ask(api_versions, 4, **CLIENT)
    assert {(f.name, f.min_version, f.max_version) for f in answer.supported_features} >= {
        ("kraft.version", 0, 1), ("metadata.version", 7, 33), ("transaction.version", 0, 2),
    }  # fmt: skip
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized == {"metadata.version": 30, "group.version": 1, "kraft.version": 1}
    assert answer.finalized_features_epoch == 76


def test_observer_returns_the_features_of_the_observed_cluster() -> None:
    world = World(quorum=MemoryQuorum())
    assert world.quorum is not None
    world.quorum.image.features.update(
        {"metadata.version": 33, "group.version": 1, "pending.version": 4}
    )
    world.quorum.image.next_offset = 77
    answer = world.ask(api_versions, 4, **CLIENT)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized == {"metadata.version": 33, "group.version": 1, "pending.version": 4}
    assert answer.finalized_features_epoch == 76
    supported = {
        feature.name: (feature.min_version, feature.max_version)
        for feature in answer.supported_features
    }
    assert supported["metadata.version"] == (7, 33) and supported["pending.version"] == (0, 4)
    assert supported["transaction.version"] == (0, 2) and "kraft.version" not in supported


def test_observer_without_an_image_returns_no_finalized_feature() -> None:
    answer = World(quorum=MemoryQuorum()).ask(api_versions, 4, **CLIENT)
    assert (answer.finalized_features, answer.finalized_features_epoch) == ([], -1)


def test_controller_listener_has_its_own_table() -> None:
    context = World(quorum=MemoryQuorum(), raft=Node()).context(4, "CONTROLLER")
    context.apis = controller_handlers()
    answer = over_the_wire(api_versions.handle(ApiVersionsRequest(**CLIENT), context), 4)
    assert list(ranges(answer)) == list(controller_handlers())
    assert {1, 52, 53, 54, 59, 80, 81, 82} <= ranges(answer).keys()
    assert ranges(answer)[1] == (12, 18)
    assert not {0, 3, 11} & ranges(answer).keys()
