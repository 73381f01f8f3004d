"""The quota of replication follows the metadata log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio
import trio.testing

from gateway.server.broker.replication_throttle import ReplicationThrottle
from gateway.sources.data_partition import DataPartition
from kwire.cluster import Image
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kwire.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.gateway.server.broker.test_broker_alone import (
    NODE_ID,
    Broker,
    broker_of,
    controller_in,
)
from tests.gateway.server.broker.test_broker_node import in_loop
from tests.waiting import until_async

RATE = "leader.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"


def image(configs: dict[tuple[int, str], dict[str, str | None]]) -> Any:
    made: Any = Image()
    made.configs.update(configs)
    return made


def test_own_rate_comes_before_that_of_all_brokers() -> None:
    throttle = ReplicationThrottle("leader", 7)
    assert not throttle.is_limited and not throttle.has("t", 0)

    async def main() -> None:
        configs: dict[tuple[int, str], dict[str, str | None]] = {
            (BROKER_RESOURCE, ""): {RATE: "1000000"},
            (BROKER_RESOURCE, "7"): {RATE: "10"},
            (BROKER_RESOURCE, "8"): {RATE: "1"},
            (TOPIC_RESOURCE, "t"): {REPLICAS: "0:7,1:8"},
        }
        throttle.on_update(None, image(configs))
        assert throttle.is_limited and not throttle.is_exceeded
        throttle.record("t", 1, 1 << 30)  # of another broker
        throttle.record("u", 0, 1 << 30)
        assert not throttle.is_exceeded
        throttle.record("t", 0, 100)
        assert throttle.is_exceeded and throttle.has("t", 0)
        await trio.sleep(11)
        assert not throttle.is_exceeded
        throttle.record("t", 0, 100)
        del configs[BROKER_RESOURCE, "7"]
        throttle.on_update(None, image(configs))
        assert throttle.is_limited and not throttle.is_exceeded
        throttle.on_update(None, image({}))
        assert not throttle.is_limited and not throttle.has("t", 0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_follower_has_keys_of_its_own() -> None:
    throttle = ReplicationThrottle("follower", 7)
    throttle.on_update(None, image({(BROKER_RESOURCE, "7"): {RATE: "10"}}))
    assert not throttle.is_limited
    throttle.on_update(
        None, image({(BROKER_RESOURCE, "7"): {"follower.replication.throttled.rate": "10"}})
    )
    assert throttle.is_limited


async def alter(broker: Broker, kind: int, name: str, key: str, value: str | None) -> None:
    config = AlterableConfig(name=key, config_operation=0 if value else 1, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    answer = await broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


def log_of(broker: Broker) -> DataPartition | None:
    return next((one for one in broker.replicas.partitions if one.stored.topic == "t"), None)


def has_some(broker: Broker) -> bool:
    log = log_of(broker)
    return log is not None and log.end_offset > 0


@in_loop
async def test_replica_that_is_added_waits_for_the_quota_of_its_leader(tmp_path: Path) -> None:
    async with (
        controller_in(tmp_path) as controller,
        broker_of(controller, tmp_path / "leader") as leader,
        broker_of(controller, tmp_path / "follower", node_id=12) as follower,
    ):
        assigned = CreatableReplicaAssignment(partition_index=0, broker_ids=[NODE_ID])
        topic = CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1, assignments=[assigned]
        )
        await leader.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        await until_async(lambda: "t" in leader.image.topic_ids)
        for _ in range(6):  # more than one Fetch of a follower takes
            await leader.produce(bytes(400_000))
        await alter(leader, BROKER_RESOURCE, str(NODE_ID), RATE, "1")
        await alter(leader, TOPIC_RESOURCE, "t", REPLICAS, f"0:{NODE_ID}")
        await until_async(lambda: leader.replicas.are_throttled, "the quota is known")
        moved = ReassignablePartition(partition_index=0, replicas=[NODE_ID, 12])
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name="t", partitions=[moved])], timeout_ms=10_000
        )
        assert (await leader.ask(request, 0)).error_code == 0
        await until_async(lambda: has_some(follower), "the first records come at once")
        own, copy = log_of(leader), log_of(follower)
        assert own is not None and copy is not None
        assert leader.replicas.holds_back(own, 12) and copy.end_offset < own.end_offset
        await alter(leader, BROKER_RESOURCE, str(NODE_ID), RATE, None)
        await until_async(lambda: copy.end_offset == own.end_offset, "the quota is gone")
        assert not leader.replicas.are_throttled
