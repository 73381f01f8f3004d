"""Random requests of brokers and administrators: none raises, and the controller's state equals the
image of its log.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import kwire
from tests.gateway.controller.broker_cluster import CLUSTER_ID, BrokerCluster
from tests.kwire.values import random_message

REQUESTS = (
    "AllocateProducerIdsRequest",
    "BrokerHeartbeatRequest",
    "BrokerRegistrationRequest",
    "UnregisterBrokerRequest",
    "UpdateFeaturesRequest",
)


class Sampled(BrokerCluster):
    """``sample`` is a registration that was accepted."""

    sample: Any


def asked(name: str, rng: random.Random, it: Sampled) -> tuple[Any, int]:
    """Any request of that name, at any version; most of those by whom it may come from."""
    cls = kwire.message_type(name)
    version = rng.choice(cls.VERSIONS)
    request: Any = random_message(cls, version, rng, tags=False)
    if rng.random() < 0.8 and hasattr(request, "broker_id"):
        request.broker_id = rng.choice((1, 2, 3))
        known = it.image.brokers.get(request.broker_id)
        if known is not None and hasattr(request, "broker_epoch"):
            request.broker_epoch = known.broker_epoch
    if rng.random() < 0.8 and name == "BrokerRegistrationRequest":
        request.cluster_id, request.is_migrating_zk_broker = CLUSTER_ID, False
        request.features = it.sample.features
        for listener in request.listeners:
            listener.security_protocol = rng.randrange(5)
    return request, version


@pytest.mark.parametrize("level", [7, 16, 25, 30])
@pytest.mark.parametrize("seed", range(4))
def test_random_broker_request_never_raises(level: int, seed: int) -> None:
    rng, it = random.Random(seed), Sampled([1, 2, 3], level=level)
    it.create([1, 2, 3], [3, 1, 2])
    it.sample = it.broker(1)
    told = set()
    for _ in range(120):
        it.now_ms += rng.choice((0, 1_000, 10_000))
        request, version = asked(rng.choice(REQUESTS), rng, it)
        answer = it.ask(request, version)
        told.add((request.NAME, answer.error_code))
    assert {(name, 0) for name in REQUESTS[:-1]} <= told, "nothing that was asked was done"
    assert {name for name, error in told if error} == set(REQUESTS), "all that was asked was done"
