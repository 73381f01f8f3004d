"""DescribeClientQuotas: strict and other filters, and filters that contradict themselves."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import describe_client_quotas
from gateway.handlers.apis.describe_client_quotas import DEFAULT, EXACT, SPECIFIED
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import alter_client_quotas
from tests.gateway.handlers.own_world import OwnWorld
from tests.gateway.handlers.world import MemoryQuorum, World

ENTITIES: list[dict[str, str | None]] = [
    {"user": "ann"},
    {"user": None},
    {"user": "ann", "client-id": "app"},
    {"user": "ann", "client-id": None},
    {"user": None, "client-id": None},
    {"client-id": "app"},
    {"ip": "10.0.0.1"},
    {"ip": None},
]


def world_with_quotas() -> OwnWorld:
    world = OwnWorld()
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [
                {
                    "key": "connection_creation_rate" if "ip" in entity else "consumer_byte_rate",
                    "value": 5.0,
                }
            ],
        }
        for entity in ENTITIES
    ]
    answer = world.ask(alter_client_quotas, 1, entries=entries)
    assert [one.error_code for one in answer.entries] == [0] * len(ENTITIES)
    return world


def ask(
    world: World, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Any:
    asked = [
        {"entity_type": kind, "match_type": how, "match": match} for kind, how, match in components
    ]
    return world.ask(describe_client_quotas, version, components=asked, strict=strict)


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, range(8)),
        ([], True, []),
        ([("user", EXACT, "ann")], False, [0, 2, 3]),
        ([("user", EXACT, "ann")], True, [0]),
        ([("user", DEFAULT, None)], False, [1, 4]),
        ([("user", DEFAULT, None)], True, [1]),
        ([("user", SPECIFIED, None)], False, range(5)),
        ([("user", SPECIFIED, None)], True, [0, 1]),
        ([("user", EXACT, "ann"), ("client-id", SPECIFIED, None)], True, [2, 3]),
        ([("user", SPECIFIED, None), ("client-id", DEFAULT, None)], False, [3, 4]),
        ([("client-id", EXACT, "app")], False, [2, 5]),
        ([("ip", SPECIFIED, None)], True, [6, 7]),
        ([("ip", DEFAULT, None)], False, [7]),
        ([("user", EXACT, "nobody")], False, []),
    ],
)
@pytest.mark.parametrize("version", describe_client_quotas.VERSIONS)
def test_filter_returns_the_entities_that_match(
    components: Any, strict: bool, found: Any, version: int
) -> None:
    answer = ask(world_with_quotas(), *components, strict=strict, version=version)
    assert answer.error_code == 0
    got = [{part.entity_type: part.entity_name for part in one.entity} for one in answer.entries]
    assert sorted(map(ENTITIES.index, got)) == list(found)
    assert all(len(one.values) == 1 and one.values[0].value == 5.0 for one in answer.entries)


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", EXACT, "ann")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "ann")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", EXACT, "ann"), ("user", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 7, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "ann")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "ann")], ErrorCode.INVALID_REQUEST),
        ([("ip", SPECIFIED, None), ("client-id", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_contradictory_filter_is_refused(components: Any, error: ErrorCode) -> None:
    answer = ask(world_with_quotas(), *components)
    assert (answer.error_code, answer.entries) == (error, None)
    assert answer.error_message


def test_quotas_of_an_observed_cluster_are_returned() -> None:
    world = World(quorum=MemoryQuorum())
    world.quorum_image.quotas[("client-id", None), ("user", "ann")] = {"producer_byte_rate": 7.0}
    (found,) = ask(world, ("user", EXACT, "ann")).entries
    assert [(one.key, one.value) for one in found.values] == [("producer_byte_rate", 7.0)]
