"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over the wire, and what other group APIs say of
such groups.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.handlers.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_groups,
    list_groups,
)
from kwire.protocol import ErrorCode
from tests.gateway.handlers.group_world import GroupWorld
from tests.gateway.handlers.own_world import OwnWorld


def joined(world: GroupWorld, **fields: Any) -> Any:
    asked = {
        "group_id": "g", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["t"], "topic_partitions": [], **fields,
    }  # fmt: skip
    return world.get(consumer_group_heartbeat, 1, **asked)


def test_member_joins() -> None:
    answer = joined(GroupWorld())
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 2)
    assert answer.assignment.topic_partitions == []
    assert answer.heartbeat_interval_ms == 5000


def test_refusal_has_its_message() -> None:
    answer = joined(GroupWorld(), member_id="")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message == "MemberId can't be empty."


@pytest.mark.parametrize("version", [0, 1])
def test_group_is_described(version: int) -> None:
    world = GroupWorld()
    joined(world, rack_id="r", instance_id="i")
    answer = world.get(consumer_group_describe, version, group_ids=["g", "x", "", "g"])
    none, group, missing = answer.groups
    assert none.error_code == ErrorCode.INVALID_GROUP_ID
    assert (missing.error_code, missing.error_message) == (69, "Group x not found.")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "uniform"
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.subscribed_topic_names, member.member_epoch) == (["t"], 2)
    assert member.client_host == "/127.0.0.1"


def test_other_apis_tell_the_type_of_the_group() -> None:
    world = GroupWorld()
    joined(world)
    listed = world.get(list_groups, 5).groups
    assert [(one.group_id, one.group_type, one.group_state) for one in listed] == [
        ("g", "consumer", "Stable")
    ]
    assert not world.get(list_groups, 5, types_filter=["classic"]).groups
    assert world.get(list_groups, 5, types_filter=["Consumer"]).groups
    (described,) = world.get(describe_groups, 6, groups=["g"]).groups
    assert described.error_message == "Group g is not a classic group."


def test_cluster_below_group_version_1_has_no_such_groups() -> None:
    world = OwnWorld()
    asked: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": 0}
    world.quorum_image.features["group.version"] = 0
    assert world.ask(consumer_group_heartbeat, 1, **asked).error_code == (
        ErrorCode.UNSUPPORTED_VERSION
    )
    described = world.ask(consumer_group_describe, 1, group_ids=["g"])
    assert described.groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION
