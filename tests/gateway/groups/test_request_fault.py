"""A request that is wrong by itself has the same error whether its group can be had or not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.groups import Settings
from gateway.groups import events as e
from gateway.groups.request_fault import not_handled, request_fault
from kwire.protocol import ErrorCode
from tests.gateway.server.groups.group_driving import join
from tests.shared import mistyped

SETTINGS = Settings()
EVENTS = (
    join(),
    e.SyncGroup(
        group_id="g",
        member_id="m",
        instance_id=None,
        generation=1,
        protocol_type=None,
        protocol_name=None,
        assignments=(),
    ),
    e.Heartbeat(group_id="g", member_id="m", instance_id=None, generation=1),
    e.LeaveGroup(group_id="g", leavers=()),
    e.OffsetDelete(group_id="g", partitions=()),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_request_without_a_group_id_is_refused_for_that_while_its_group_is_away(
    event: e.JoinGroup | e.SyncGroup | e.Heartbeat | e.LeaveGroup | e.OffsetDelete,
) -> None:
    assert request_fault(event, SETTINGS) is ErrorCode.NONE
    nameless = replace(event, group_id="")
    for error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
        assert not_handled(event, SETTINGS, error) == event.failed(error)
        answer = not_handled(nameless, SETTINGS, error)
        assert mistyped(answer).error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_out_of_bounds_is_refused_while_the_group_is_away(session_ms: int) -> None:
    answer = not_handled(join(session_ms=session_ms), SETTINGS, ErrorCode.NOT_COORDINATOR)
    assert mistyped(answer).error is ErrorCode.INVALID_SESSION_TIMEOUT
