"""Registered brokers: the responses to them on controller listeners, and their place in responses
to clients.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.controller.features import default_features
from gateway.handlers.apis import describe_cluster, find_coordinator, metadata
from gateway.handlers.table import controller_handlers, handlers
from kwire.cluster import Image
from kwire.protocol import ErrorCode
from kwire.uuid import Uuid
from tests.gateway.controller.cluster import offered
from tests.gateway.handlers.admin_handlers import (
    allocate_producer_ids,
    broker_heartbeat,
    broker_registration,
    unregister_broker,
    update_features,
)
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.world import NODE

BROKERS_ONLY = (broker_registration, broker_heartbeat, allocate_producer_ids)
FEATURES = {
    "metadata.version": (7, 33),
    **{name: (0, level) for name, level in default_features(33).items()},
}
FENCED, SERVING, ELSEWHERE = 101, 102, 103


def image(world: OwnWorld) -> Image:
    assert world.quorum is not None
    return world.quorum.image


def register(world: OwnWorld, broker_id: int, listener: str = "PLAINTEXT", version: int = 4) -> Any:
    features = offered(FEATURES)
    fields: dict[str, Any] = {
        "incarnation_id": Uuid(bytes([broker_id]) * 16),
        "features": features,
        "rack": f"rack-{broker_id}",
    }
    if version >= 2:
        fields["log_dirs"] = [Uuid(bytes([broker_id]) * 16)]
    fields["listeners"] = [{"name": listener, "host": f"broker-{broker_id}", "port": 9092}]
    return world.ask(
        broker_registration, version, listener="CONTROLLER", broker_id=broker_id, **fields
    )


def serve(world: OwnWorld, broker_id: int, version: int = 2) -> Any:
    epoch = image(world).brokers[broker_id].broker_epoch
    fields = {"broker_id": broker_id, "broker_epoch": epoch, "current_metadata_offset": 1 << 40}
    return world.ask(broker_heartbeat, version, listener="CONTROLLER", **fields)


@pytest.fixture
def world() -> OwnWorld:
    world = OwnWorld()
    for broker_id, listener in (
        (FENCED, "PLAINTEXT"),
        (SERVING, "PLAINTEXT"),
        (ELSEWHERE, "INTERNAL"),
    ):
        assert register(world, broker_id, listener).error_code == 0
        if broker_id != FENCED:
            assert not serve(world, broker_id).is_fenced
    return world


@pytest.mark.parametrize("version", broker_registration.versions)
def test_every_version_of_registration(version: int) -> None:
    answer = register(OwnWorld(), 7, version=version)
    if version < 2:  # has no place for directories
        assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    else:
        assert answer.error_code == 0 and answer.broker_epoch > 0


@pytest.mark.parametrize("version", broker_heartbeat.versions)
def test_every_version_of_heartbeats(world: OwnWorld, version: int) -> None:
    answer = serve(world, FENCED, version)
    assert (answer.error_code, answer.is_caught_up, answer.is_fenced, answer.should_shut_down) == (
        0,
        True,
        False,
        False,
    )


def test_producer_ids_are_allocated_for_a_registered_broker(world: OwnWorld) -> None:
    epoch = image(world).brokers[SERVING].broker_epoch
    answer = world.ask(
        allocate_producer_ids, 0, listener="CONTROLLER", broker_id=SERVING, broker_epoch=epoch
    )
    assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (0, 0, 1000)


@pytest.mark.parametrize("handler", BROKERS_ONLY, ids=lambda handler: handler.name)
def test_inactive_controller_answers_not_controller(handler: Any) -> None:
    world = OwnWorld()
    world.controller.is_active = False
    for version in handler.versions:
        assert (
            world.ask(handler, version, listener="CONTROLLER").error_code
            == ErrorCode.NOT_CONTROLLER
        )


def test_broker_apis_are_served_on_controller_listeners_only() -> None:
    keys = {handler.api_key for handler in BROKERS_ONLY}
    assert keys <= controller_handlers().keys() and not keys & handlers().keys()
    both = {unregister_broker.api_key, update_features.api_key}
    assert both <= controller_handlers().keys() & handlers().keys()


def test_unregister_broker_is_served_on_client_listeners(world: OwnWorld) -> None:
    assert world.ask(unregister_broker, 0, broker_id=FENCED).error_code == 0
    assert FENCED not in image(world).brokers
    assert (
        world.ask(unregister_broker, 0, broker_id=FENCED).error_code
        == ErrorCode.BROKER_ID_NOT_REGISTERED
    )


@pytest.mark.parametrize("version", update_features.versions)
def test_update_features_is_served_on_client_listeners(version: int) -> None:
    kind: dict[str, Any] = {"upgrade_type": 2} if version else {}
    update = {"feature": "group.version", "max_version_level": 0 if version else 1, **kind}
    world = OwnWorld()
    image(world).controllers.clear()  # the other one told no features
    answer = world.ask(update_features, version, feature_updates=[update], timeout_ms=1000)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "controller 8 has not registered" in answer.error_message


@pytest.mark.parametrize("version", metadata.VERSIONS)
def test_metadata_names_brokers_that_serve_at_the_clients_listener(
    world: OwnWorld, version: int
) -> None:
    told = world.ask(metadata, version, topics=[] if version == 0 else None).brokers
    assert [one.node_id for one in told] == [NODE, OTHER, SERVING]
    assert (told[2].host, told[2].port, told[2].rack) == (
        f"broker-{SERVING}",
        9092,
        f"rack-{SERVING}" if version else None,
    )


@pytest.mark.parametrize("version", describe_cluster.VERSIONS)
def test_describe_cluster_names_the_nodes_of_metadata_and_brokers_wherever_they_listen(
    world: OwnWorld, version: int
) -> None:
    answer = world.ask(describe_cluster, version)
    assert [one.broker_id for one in answer.brokers] == [NODE, OTHER, SERVING, ELSEWHERE]
    assert answer.controller_id == NODE


def test_describe_cluster_names_fenced_brokers_on_request(world: OwnWorld) -> None:
    answer = world.ask(describe_cluster, 2, include_fenced_brokers=True)
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [
        (NODE, False), (OTHER, False), (FENCED, True), (SERVING, False), (ELSEWHERE, False),
    ]  # fmt: skip


def test_partitions_are_placed_on_brokers_that_serve(world: OwnWorld) -> None:
    world.create("orders", [SERVING, ELSEWHERE])
    (topic,) = world.ask(metadata, 12, topics=[{"name": "orders"}]).topics
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.isr_nodes, partition.offline_replicas) == (
        SERVING,
        [SERVING, ELSEWHERE],
        [ELSEWHERE],
    )


class _Coordinators:
    """Groups whose id is that of the broker that coordinates them."""

    def coordinator_of(self, group_id: str) -> int:
        return int(group_id)


def test_coordinator_on_another_broker_is_named_with_the_address_of_that_broker(
    world: OwnWorld,
) -> None:
    world.groups = _Coordinators()
    keys = [str(broker) for broker in (NODE, SERVING, FENCED, ELSEWHERE, 99)]
    told = world.ask(find_coordinator, 4, coordinator_keys=keys).coordinators
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [(one.error_code, one.node_id, one.host) for one in told] == [
        (0, NODE, "gateway.example"),
        (0, SERVING, f"broker-{SERVING}"),
        *[(error, -1, "")] * 3,
    ]


@pytest.mark.parametrize("version", [1, 12])
def test_node_that_is_controller_and_broker_is_named_while_its_broker_is_not_fenced(
    world: OwnWorld, version: int
) -> None:
    def told() -> dict[int, str | None]:
        return {one.node_id: one.rack for one in world.ask(metadata, version, topics=None).brokers}

    assert told() == {NODE: None, OTHER: None, SERVING: f"rack-{SERVING}"}
    assert register(world, OTHER).error_code == 0
    assert told() == {NODE: None, SERVING: f"rack-{SERVING}"}
    described = world.ask(describe_cluster, 2, include_fenced_brokers=True).brokers
    assert {one.broker_id for one in described if one.is_fenced} == {FENCED, OTHER}
    serve(world, OTHER)
    assert told() == {NODE: None, OTHER: f"rack-{OTHER}", SERVING: f"rack-{SERVING}"}


def test_node_names_its_own_rack() -> None:
    world = OwnWorld()
    world.config = replace(world.config, broker_rack="here")
    (told,) = [one for one in world.ask(metadata, 12, topics=None).brokers if one.node_id == NODE]
    assert told.rack == "here"
    assert world.ask(describe_cluster, 1).brokers[0].rack == "here"
