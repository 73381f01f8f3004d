"""Makes consumer groups for the rules: a coordinator that is ready, members that have joined.

Groups have the prefix of the run. Their members leave and the groups are deleted at its end.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Final

from kwire.conformance.outcome import CheckEnd
from kwire.conformance.probe import Probe
from kwire.conformance.requests import NO_NAME
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.describe_groups_request import DescribeGroupsRequest
from kwire.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol import ApiKey, ErrorCode

#: The APIs that a member of a classic group uses.
MEMBERS: Final = (
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.FIND_COORDINATOR,
)
_NOT_READY: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
#: Names that are tried to find a group whose coordinator is the server.
_NAMES_MAX: Final = 64
_SESSION_MS: Final = 30_000


#: The metadata of a member: version 0 of a consumer's subscription to one topic. Kafka reads it,
#: and does not answer JoinGroup if it is none.
SUBSCRIPTION: Final = b"\0\0" + ConsumerProtocolSubscription(topics=[NO_NAME]).encode(0)


@dataclass(frozen=True)
class Member:
    """The only member of a group, with the answer to its JoinGroup."""

    group: str
    member_id: str
    generation: int
    answer: Any


def new_group(probe: Probe) -> str:
    """Return the name of a new group that the server coordinates. It is deleted at the end.

    Ends the check as not applicable if no name leads to this server.
    """
    _ready(probe)
    names = (probe.session.new_name() for _ in range(_NAMES_MAX))
    name = next((one for one in names if _coordinates(probe, one)), None)
    if name is None:
        probe.not_applicable(f"the server coordinates none of {_NAMES_MAX} groups")
    probe.session.on_end(f"group {name}", lambda: _delete(probe, name))
    return name


def _ready(probe: Probe) -> None:
    """Return once groups have a coordinator: its topic is created by the first request."""

    def wait() -> bool:
        with probe.other_probe() as other:
            name = probe.session.new_name()
            other.until(lambda: _found(other, name), "a coordinator of groups")
        return True

    probe.session.shared("coordinator", wait, probe.deadline)


def _found(probe: Probe, name: str) -> bool:
    request = FindCoordinatorRequest(key=name, coordinator_keys=[name])
    version = probe.newest(ApiKey.FIND_COORDINATOR)
    if version < 4:
        request.coordinator_keys = []
        code = probe.call(request, version).error_code
    else:
        request.key = ""
        code = probe.call(request, version).coordinators[0].error_code
    return bool(code == ErrorCode.NONE)


def _coordinates(probe: Probe, group: str) -> bool:
    """Return whether the server coordinates the group, once it has loaded the group's partition.

    It asks by DescribeGroups: Kafka answers a Heartbeat without an error while it loads.
    """

    def loaded() -> Any:
        group_now = described(probe, group)
        return None if group_now.error_code in _NOT_READY else group_now

    return bool(probe.until(loaded, "a loaded coordinator").error_code != ErrorCode.NOT_COORDINATOR)


def _delete(probe: Probe, name: str) -> None:
    if ApiKey.DELETE_GROUPS not in probe.session.offered:
        return
    with probe.other_probe() as other:
        group = described(other, name)
        members = [MemberIdentity(member_id=one.member_id) for one in group.members]
        if members and other.newest(ApiKey.LEAVE_GROUP) >= 3:
            other.call(LeaveGroupRequest(group_id=name, members=members))
        # A member that was given an id and has not joined keeps the group for its session timeout.
        with contextlib.suppress(CheckEnd):
            other.call(DeleteGroupsRequest(groups_names=[name]))


def described(probe: Probe, group: str) -> Any:
    """Return the group as DescribeGroups shows it."""
    [found] = probe.call(DescribeGroupsRequest(groups=[group])).groups
    return found


def join_request(group: str, member_id: str, **more: Any) -> JoinGroupRequest:
    """Return a JoinGroup of a consumer. ``more``: fields of the request."""
    values: dict[str, Any] = {
        "session_timeout_ms": _SESSION_MS,
        "rebalance_timeout_ms": _SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        **more,
    }
    return JoinGroupRequest(group_id=group, member_id=member_id, **values)


def join(probe: Probe, group: str, member_id: str, version: int | None = None, **more: Any) -> Any:
    """Return the answer to JoinGroup."""
    return probe.call(join_request(group, member_id, **more), version)


def join_alone(probe: Probe) -> Member:
    """Return the only member of a new group. It is the leader and has not synchronized."""
    group = new_group(probe)
    answer = join(probe, group, "")
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = join(probe, group, answer.member_id)
    probe.expect_error(answer.error_code, ErrorCode.NONE, where="the answer to JoinGroup")
    return Member(group, answer.member_id, answer.generation_id, answer)


def sync(probe: Probe, member: Member, assignment: bytes, generation: int | None = None) -> Any:
    """Return the answer to a SyncGroup that assigns ``assignment`` to the member."""
    assignments = [SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment)]
    version = probe.newest(ApiKey.SYNC_GROUP)
    names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest(
        group_id=member.group,
        member_id=member.member_id,
        generation_id=member.generation if generation is None else generation,
        assignments=assignments,
        **names,
    )
    return probe.call(request, version)
