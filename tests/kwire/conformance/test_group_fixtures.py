"""A group is handed to a rule once its coordinator has loaded it."""

from __future__ import annotations

import socket
from typing import Any

from kwire.conformance.group_fixtures import new_group
from kwire.conformance.opening import open_session
from kwire.conformance.outcome import Outcome
from kwire.conformance.probe import Probe
from kwire.conformance.rule import Rule
from kwire.conformance.runner import Options, run_rules
from kwire.frame import frame
from kwire.header import decode_request_header, encode_response_header
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from kwire.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from kwire.messages.heartbeat_response import HeartbeatResponse
from kwire.protocol import ApiKey, ErrorCode
from tests.kwire.conformance.scripted import OFFERED, Script, server

_OFFERED = {
    **OFFERED,
    ApiKey.FIND_COORDINATOR: (4, 4),
    ApiKey.HEARTBEAT: (4, 4),
    ApiKey.DESCRIBE_GROUPS: (5, 5),
}


def _broker(errors: list[ErrorCode], described: list[str]) -> Script:
    """A broker that answers DescribeGroups with these errors, then without one. It answers every
    Heartbeat without an error, as Kafka's GroupCoordinatorService does while it loads.
    """

    def answer(connection: socket.socket, request: bytes) -> bool:
        header, body = decode_request_header(request)
        key, version = header.request_api_key, header.request_api_version
        data: Any
        if key == ApiKey.FIND_COORDINATOR:
            data = FindCoordinatorResponse(coordinators=[Coordinator(key="any")])
        elif key == ApiKey.HEARTBEAT:
            data = HeartbeatResponse()
        else:
            [group] = DescribeGroupsRequest.decode(request[body:], version).groups
            described.append(group)
            error = errors.pop(0) if errors else ErrorCode.NONE
            data = DescribeGroupsResponse(groups=[DescribedGroup(group_id=group, error_code=error)])
        start = encode_response_header(key, version, header.correlation_id)
        connection.sendall(frame(start, data.encode(version)))
        return True

    return answer


def _group_after(errors: list[ErrorCode]) -> tuple[str, list[str]]:
    """Return the group that a rule gets, and those that were described until then."""
    described: list[str] = []
    given: list[tuple[str, list[str]]] = []

    def check(probe: Probe) -> None:
        given.append((new_group(probe), list(described)))

    with server(_broker(errors, described), _OFFERED) as target:
        rule = Rule("test.rule", "A rule.", check, "test")
        report = run_rules(open_session(target, 5), [rule], Options())
    assert [result.outcome for result in report.results] == [Outcome.PASS]
    assert not errors
    return given[0]


def test_group_is_given_once_its_coordinator_has_loaded_it() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    name, described = _group_after([loading, ErrorCode.COORDINATOR_NOT_AVAILABLE, loading])
    assert described == [name] * 4


def test_group_of_another_coordinator_is_not_given() -> None:
    name, described = _group_after([ErrorCode.NOT_COORDINATOR])
    assert len(set(described)) == 2 and described[-1] == name
