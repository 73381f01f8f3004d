"""Ten thousand random admin operations have the same outcomes in the controller and in a model of
dictionaries.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from gateway.ports.answer_errors import errors_of
from tests.gateway.controller.cluster import Cluster, whole
from tests.gateway.controller.plain_model import Model, seen
from tests.gateway.controller.plain_requests import plain_request


@pytest.mark.parametrize("seed", range(10))
def test_controller_and_model_have_the_same_errors_and_state(seed: int) -> None:
    rng, cluster, model = random.Random(seed), Cluster(), Model()
    found: Counter[int] = Counter()
    for number in range(1000):
        request = plain_request(rng)
        version = type(request).VERSIONS[-1]
        decision = cluster.decide(request, version)
        if decision.operation is not None:
            cluster.commit(decision.operation)
        errors, expected = errors_of(whole(decision.answer)), model.ask(request)
        assert errors == expected, f"request {number}: {request}"
        assert seen(cluster.image) == model.seen(), f"request {number}: {request}"
        found += errors
    cluster.check()
    assert len(found) >= 9, "too few kinds of mistakes"
