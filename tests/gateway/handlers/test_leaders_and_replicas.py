"""Requests about leaders and replicas reach the active controller: from admin clients on every
listener, from brokers on controller listeners.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from gateway.handlers.table import controller_handlers, handlers
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import (
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    elect_leaders,
    list_partition_reassignments,
)
from tests.gateway.handlers.own_world import OTHER, OwnWorld
from tests.gateway.handlers.world import NODE


@pytest.mark.parametrize("listener", ["PLAINTEXT", "CONTROLLER"])
def test_reassignments_and_elections_reach_the_controller(listener: str) -> None:
    world = OwnWorld()
    world.create("orders", [NODE])
    moved = [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [OTHER, NODE]}]}]
    answer = world.ask(
        alter_partition_reassignments, 1, listener=listener, topics=moved, timeout_ms=1000
    )
    assert answer.responses[0].partitions[0].error_code == 0
    assert (
        world.ask(
            list_partition_reassignments, 0, listener=listener, topics=None, timeout_ms=1000
        ).topics
        == []
    )
    asked = [{"topic": "orders", "partitions": [0]}]
    for error in (0, ErrorCode.ELECTION_NOT_NEEDED):
        answer = world.ask(
            elect_leaders,
            2,
            listener=listener,
            election_type=0,
            topic_partitions=asked,
            timeout_ms=1000,
        )
        assert answer.replica_election_results[0].partition_result[0].error_code == error
    assert world.quorum is not None
    (partition,) = (one[0] for one in world.quorum.image.partitions.values())
    assert (partition.leader, partition.replicas) == (OTHER, [OTHER, NODE])


@pytest.mark.parametrize(
    ("handler", "fields"),
    [(alter_partition, {"topics": [{}]}), (assign_replicas_to_dirs, {})],
)
def test_broker_apis_are_served_on_controller_listeners_only(
    handler: ModuleType, fields: dict[str, Any]
) -> None:
    key = handler.api_key
    assert key in controller_handlers()
    assert key not in handlers()
    version = controller_handlers()[key].versions[-1]
    answer = OwnWorld().ask(
        handler, version, listener="CONTROLLER", broker_id=5, broker_epoch=3, **fields
    )
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", [0, 1])
def test_older_forms_of_alter_partition_are_served_and_not_advertised(version: int) -> None:
    world = OwnWorld()
    handler = controller_handlers()[alter_partition.api_key]
    assert handler.serves(version) and version not in handler.versions
    assert handler.api(version) == ("alter_isr" if version == 0 else "alter_partition")
    answer = world.ask(
        alter_partition, version, listener="CONTROLLER", broker_id=5, broker_epoch=3, topics=[{}]
    )
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert world.controller is not None
    world.controller.is_active = False
    answer = world.ask(
        alter_partition, version, listener="CONTROLLER", broker_id=5, broker_epoch=3, topics=[{}]
    )
    assert answer.error_code == ErrorCode.NOT_CONTROLLER
