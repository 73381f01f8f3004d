"""ListConfigResources of the metadata topic and this node."""

from __future__ import annotations

import pytest

from gateway.handlers.apis import list_config_resources
from kwire.protocol import ErrorCode
from tests.gateway.handlers.world import NODE, World

TOPIC, BROKER = (2, "__cluster_metadata"), (4, str(NODE))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], [TOPIC, BROKER]),
        ([2], [TOPIC]),
        ([4], [BROKER]),
        ([4, 2, 4], [TOPIC, BROKER]),
        ([8, 16, 32], []),
    ],
)
def test_names_by_type(asked: list[int], found: list[tuple[int, str]]) -> None:
    answer = World().ask(list_config_resources, 1, resource_types=asked)
    assert [(one.resource_type, one.resource_name) for one in answer.config_resources] == found
    assert answer.error_code == 0


def test_version_0_asks_for_client_metrics_and_there_are_none() -> None:
    answer = World().ask(list_config_resources, 0)
    assert (answer.error_code, answer.config_resources) == (0, [])


@pytest.mark.parametrize("asked", [[1], [0], [-1], [2, 3]])
def test_a_type_that_is_none(asked: list[int]) -> None:
    answer = World().ask(list_config_resources, 1, resource_types=asked)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


@pytest.mark.parametrize("version", list_config_resources.VERSIONS)
def test_asking_needs_the_right(version: int) -> None:
    world = World()
    world.authorizer.forbidden = {("DESCRIBE_CONFIGS", "CLUSTER", "kafka-cluster")}
    assert (
        world.ask(list_config_resources, version).error_code
        == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
