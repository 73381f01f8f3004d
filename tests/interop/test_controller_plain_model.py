"""Thousands of random admin operations have the same outcomes at Kafka's controller, at kwire's
and in a plain model.

They are about topics, configurations, ACLs, quotas and SCRAM users. At the end both logs hold the
model's state.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from gateway.ports.answer_errors import errors_of
from tests.gateway.controller.plain_model import Model, seen
from tests.gateway.controller.plain_requests import plain_request
from tests.interop.clients import need_java
from tests.interop.conftest import FIGURES
from tests.interop.images import image_of
from tests.interop.test_controller_admin_answers import AUTHORIZER, NEWEST, flags
from tools.gateway_process import gateway
from tools.kafka import AT_ONCE, kafka
from tools.wire_client import WireClient

#: Requests of one run; ``KWIRE_ADMIN_REQUESTS`` sets another number.
_COUNT: Final = int(os.environ.get("KWIRE_ADMIN_REQUESTS", "1500"))
_SEED: Final = 11


@pytest.mark.timeout(900)  # a minute, where nothing else runs
def test_random_operations_have_the_outcomes_of_the_model(tmp_path: Path) -> None:
    need_java()
    rng, model, mistakes = random.Random(_SEED), Model(), Counter[int]()
    with (
        kafka(version=NEWEST, properties=AUTHORIZER | AT_ONCE) as cluster,
        gateway(
            "--process-roles", "controller", "--data-dir", str(tmp_path), *flags(AUTHORIZER)
        ) as server,
        WireClient(cluster.bootstrap) as real,
        WireClient(server.bootstrap) as kwires,
    ):
        for number in range(_COUNT):
            request = plain_request(rng)
            version = type(request).VERSIONS[-1]
            expected = model.ask(request)
            told = {
                who: errors_of(client.call(request, version))
                for who, client in (("Kafka", real), ("kwire", kwires))
            }
            assert told == {"Kafka": expected, "kwire": expected}, f"request {number}: {request}"
            mistakes += expected
        time.sleep(1)
        found = {
            "Kafka": seen(image_of(cluster.nodes[0].metadata_log_dir)),
            "kwire": seen(image_of(tmp_path / "__cluster_metadata-0")),
        }
    assert found == {"Kafka": model.seen(), "kwire": model.seen()}
    FIGURES.append(
        f"controllers and a plain model: {_COUNT} random requests, {mistakes.total()} errors, "
        "the same; the same state"
    )
