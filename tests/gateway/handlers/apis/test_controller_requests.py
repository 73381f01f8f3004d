"""Changes through the active controller: the requester is passed on, the response waits, and times
out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.controller.admin_api import TIMEOUT_MS
from gateway.handlers.apis.controller_requests import TIMEOUT_MS_MAX
from gateway.ports.pending_response import PendingResponse
from gateway.ports.services import Requester
from kwire.protocol import ErrorCode
from tests.gateway.handlers.admin_handlers import (
    alter_configs,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from tests.gateway.handlers.own_world import OwnWorld

TOPIC = {"name": "orders", "num_partitions": 1, "replication_factor": 1}
CONFIG = {
    "resource_type": 2,
    "resource_name": "orders",
    "configs": [{"name": "retention.ms", "value": "5"}],
}


def test_every_admin_request_reaches_the_controller() -> None:
    world = OwnWorld()
    image = world.quorum_image
    assert world.ask(create_topics, 7, topics=[TOPIC], timeout_ms=1000).topics[0].error_code == 0
    grown = {"name": "orders", "count": 3, "assignments": None}
    assert (
        world.ask(create_partitions, 3, topics=[grown], timeout_ms=1000).results[0].error_code == 0
    )
    assert len(image.partitions[image.topic_ids["orders"]]) == 3
    assert world.ask(alter_configs, 2, resources=[CONFIG]).responses[0].error_code == 0
    more = {**CONFIG, "configs": [{"name": "segment.ms", "value": "7", "config_operation": 0}]}
    assert world.ask(incremental_alter_configs, 1, resources=[more]).responses[0].error_code == 0
    assert image.configs[2, "orders"] == {"retention.ms": "5", "segment.ms": "7"}
    assert (
        world.ask(delete_topics, 6, topics=[{"name": "orders"}], timeout_ms=1000)
        .responses[0]
        .error_code
        == 0
    )
    assert not image.topics
    answer = world.ask(controller_registration, 0, listener="CONTROLLER", controller_id=9)
    assert answer.error_code == 0 and 9 in image.controllers
    anonymous = Requester("User:ANONYMOUS", "127.0.0.1", "test")
    assert set(world.controller.askers) == {
        replace(anonymous, listener=where) for where in ("PLAINTEXT", "CONTROLLER")
    }


def test_authorizer_is_asked_about_the_requester() -> None:
    world = OwnWorld()
    world.authorizer.forbidden = {("CREATE", "CLUSTER", "*"), ("CREATE", "TOPIC", "orders")}
    (result,) = world.ask(create_topics, 7, topics=[TOPIC], timeout_ms=1000).topics
    assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_response_waits_and_times_out_with_an_unknown_outcome() -> None:
    world = OwnWorld()
    world.controller.holds = True
    pending = world.ask(create_topics, 7, topics=[TOPIC], timeout_ms=2500)
    assert (
        isinstance(pending, PendingResponse)
        and pending.deadline == 102.5
        and pending.expire is not None
    )
    answer: Any = pending.expire()
    (result,) = answer.topics
    assert (result.name, result.error_code) == ("orders", ErrorCode.REQUEST_TIMED_OUT)
    assert "2.500 s" in result.error_message
    world.controller.release()
    assert pending.done


@pytest.mark.parametrize(
    ("asked_ms", "waits_s"), [(-5, 0.0), (0, 0.0), (2**31 - 1, TIMEOUT_MS_MAX / 1000)]
)
def test_timeout_of_the_request_is_limited(asked_ms: int, waits_s: float) -> None:
    world = OwnWorld()
    world.controller.holds = True
    assert (
        world.ask(delete_topics, 6, topics=[{"name": "a"}], timeout_ms=asked_ms).deadline
        == 100.0 + waits_s
    )


def test_config_requests_have_the_default_timeout() -> None:
    world = OwnWorld()
    world.controller.holds = True
    assert world.ask(alter_configs, 2, resources=[CONFIG]).deadline == 100.0 + TIMEOUT_MS / 1000


@pytest.mark.parametrize(
    ("handler", "fields", "errors"),
    [
        (
            create_topics,
            {"topics": [TOPIC]},
            lambda answer: [one.error_code for one in answer.topics],
        ),
        (controller_registration, {"controller_id": 9}, lambda answer: [answer.error_code]),
    ],
)
def test_inactive_controller_listener_forwards_nothing(
    handler: Any, fields: dict[str, Any], errors: Any
) -> None:
    world = OwnWorld()
    world.controller.is_active = False
    answer = world.ask(handler, handler.versions[-1], listener="CONTROLLER", **fields)
    assert errors(answer) == [ErrorCode.NOT_CONTROLLER]
    assert not world.controller.askers
