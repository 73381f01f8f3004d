"""The quota of replication follows the metadata log."""

from __future__ import annotations

from typing import Any

import trio
import trio.testing

from gateway.server.broker.replication_throttle import ReplicationThrottle
from kwire.cluster import Image
from kwire.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE

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
