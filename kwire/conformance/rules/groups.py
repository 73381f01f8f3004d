"""Rules of classic consumer groups (KIP-62, KIP-345, KIP-394, KIP-814)."""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.connection import Connection
from kwire.conformance.group_fixtures import (
    MEMBERS,
    SUBSCRIPTION,
    Member,
    described,
    join,
    join_alone,
    join_request,
    new_group,
    sync,
)
from kwire.conformance.probe import Probe
from kwire.conformance.rule import BROKER, Changes, Family
from kwire.messages.delete_groups_request import DeleteGroupsRequest
from kwire.messages.heartbeat_request import HeartbeatRequest
from kwire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_groups_request import ListGroupsRequest
from kwire.protocol import ApiKey, ErrorCode

_NO_MEMBER: Final = "kwire-conform-no-member"
FAMILY: Final = Family(
    "groups",
    "Classic consumer groups",
    roles=BROKER,
    apis=MEMBERS,
    changes=Changes.OWN,
)


def _heartbeat(probe: Probe, group: str, member_id: str, generation: int, **more: Any) -> int:
    request = HeartbeatRequest(
        group_id=group, member_id=member_id, generation_id=generation, **more
    )
    code: int = probe.call(request).error_code
    return code


def _leave(probe: Probe, member: Member) -> Any:
    version = probe.newest(ApiKey.LEAVE_GROUP)
    if version < 3:
        request = LeaveGroupRequest(group_id=member.group, member_id=member.member_id)
    else:
        identity = MemberIdentity(member_id=member.member_id)
        request = LeaveGroupRequest(group_id=member.group, members=[identity])
    return probe.call(request, version)


@FAMILY.rule("member-id-required", source="KIP-394", section="JoinGroup v4", since="2.2")
def member_id_required(probe: Probe) -> None:
    """From version 4 on a first JoinGroup without a member id is answered with MEMBER_ID_REQUIRED
    and the id to join with.
    """
    version = probe.need(ApiKey.JOIN_GROUP, *range(4, 10))
    answer = join(probe, new_group(probe), "", version=version)
    probe.expect_error(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED)
    probe.expect(bool(answer.member_id), "the answer has no member id")


@FAMILY.rule("joins-with-given-id", source="KIP-394", section="JoinGroup v4", since="2.2")
def joins_with_given_id(probe: Probe) -> None:
    """A JoinGroup with the member id that was given joins the group, as leader of generation 1."""
    member = join_alone(probe)
    answer = member.answer
    probe.expect(answer.member_id == member.member_id, f"the member has id {answer.member_id}")
    probe.expect(answer.generation_id == 1, f"a new group has generation {answer.generation_id}")
    probe.expect(answer.leader == answer.member_id, f"the only member follows {answer.leader}")


@FAMILY.rule("leader-gets-members", source="JoinGroupResponse.json", section="Members")
def leader_gets_members(probe: Probe) -> None:
    """The leader of a group gets the members with their metadata, and the protocol that was
    chosen.
    """
    member = join_alone(probe)
    found = [(one.member_id, bytes(one.metadata)) for one in member.answer.members]
    probe.expect(found == [(member.member_id, SUBSCRIPTION)], f"the members are {found}")
    name = member.answer.protocol_name
    probe.expect(name == "range", f"the protocol that was chosen is {name}")


@FAMILY.rule("protocol-type", source="KIP-559", section="JoinGroup v7", since="2.5")
def protocol_type(probe: Probe) -> None:
    """From version 7 on the answers to JoinGroup and SyncGroup have the protocol type."""
    probe.need(ApiKey.JOIN_GROUP, 7, 8, 9)
    probe.need(ApiKey.SYNC_GROUP, 5)
    member = join_alone(probe)
    found = member.answer.protocol_type
    probe.expect(found == "consumer", f"JoinGroup has protocol type {found}")
    answer = sync(probe, member, b"mine")
    probe.expect(
        (answer.protocol_type, answer.protocol_name) == ("consumer", "range"),
        f"SyncGroup has protocol {answer.protocol_type}, {answer.protocol_name}",
    )


@FAMILY.rule("assignment-comes-back", source="SyncGroupResponse.json", section="Assignment")
def assignment_comes_back(probe: Probe) -> None:
    """A member gets the bytes that the leader assigned to it."""
    answer = sync(probe, join_alone(probe), b"\0\1assignment")
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    probe.expect(bytes(answer.assignment) == b"\0\1assignment", "the assignment is another one")


@FAMILY.rule("heartbeat", source="GroupCoordinator", section="handleHeartbeat")
def heartbeat(probe: Probe) -> None:
    """A heartbeat of a member of the current generation is accepted."""
    member = join_alone(probe)
    sync(probe, member, b"mine")
    code = _heartbeat(probe, member.group, member.member_id, member.generation)
    probe.expect_error(code, ErrorCode.NONE)


@FAMILY.rule("heartbeat-of-old-generation", source="GroupCoordinator", section="handleHeartbeat")
def heartbeat_of_old_generation(probe: Probe) -> None:
    """A heartbeat of another generation has error ILLEGAL_GENERATION."""
    member = join_alone(probe)
    sync(probe, member, b"mine")
    for generation in (member.generation - 1, member.generation + 1):
        code = _heartbeat(probe, member.group, member.member_id, generation)
        probe.expect_error(code, ErrorCode.ILLEGAL_GENERATION, where=f"generation {generation}")


@FAMILY.rule("heartbeat-of-no-member", source="GroupCoordinator", section="handleHeartbeat")
def heartbeat_of_no_member(probe: Probe) -> None:
    """A heartbeat of a member that the group does not have has error UNKNOWN_MEMBER_ID."""
    member = join_alone(probe)
    code = _heartbeat(probe, member.group, _NO_MEMBER, member.generation)
    probe.expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID)


@FAMILY.rule("heartbeat-of-no-group", source="GroupCoordinator", section="handleHeartbeat")
def heartbeat_of_no_group(probe: Probe) -> None:
    """A heartbeat to a group that does not exist has error UNKNOWN_MEMBER_ID."""
    code = _heartbeat(probe, new_group(probe), _NO_MEMBER, 1)
    probe.expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID)


@FAMILY.rule("leave", source="GroupCoordinator", section="handleLeaveGroup")
def leave(probe: Probe) -> None:
    """A member that has left is no longer known."""
    member = join_alone(probe)
    sync(probe, member, b"mine")
    answer = _leave(probe, member)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    for one in answer.members:
        probe.expect_error(one.error_code, ErrorCode.NONE, where="the member")
    code = _heartbeat(probe, member.group, member.member_id, member.generation)
    probe.expect_error(code, ErrorCode.UNKNOWN_MEMBER_ID, where="a heartbeat behind it")


@FAMILY.rule("leave-of-no-member", source="KIP-345", section="LeaveGroup v3", since="2.4")
def leave_of_no_member(probe: Probe) -> None:
    """From version 3 on a member that the group does not have has error UNKNOWN_MEMBER_ID, each
    for itself.
    """
    version = probe.need(ApiKey.LEAVE_GROUP, 3, 4, 5)
    member = join_alone(probe)
    identity = MemberIdentity(member_id=_NO_MEMBER)
    request = LeaveGroupRequest(group_id=member.group, members=[identity])
    answer = probe.call(request, version)
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    [one] = answer.members
    probe.expect_error(one.error_code, ErrorCode.UNKNOWN_MEMBER_ID, where="the member")


@FAMILY.rule(
    "empty-group-id",
    source="GroupCoordinator",
    section="validateGroupStatus",
    changes=Changes.NOTHING,
)
def empty_group_id(probe: Probe) -> None:
    """JoinGroup with an empty group id has error INVALID_GROUP_ID."""
    answer = join(probe, "", "")
    probe.expect_error(answer.error_code, ErrorCode.INVALID_GROUP_ID)


@FAMILY.rule(
    "session-timeout-too-short", source="GroupCoordinator", section="group.min.session.timeout.ms"
)
def session_timeout_too_short(probe: Probe) -> None:
    """A session timeout of 1 ms has error INVALID_SESSION_TIMEOUT."""
    answer = join(probe, new_group(probe), "", session_timeout_ms=1)
    probe.expect_error(answer.error_code, ErrorCode.INVALID_SESSION_TIMEOUT)


@FAMILY.rule("unknown-member-joins", source="GroupCoordinator", section="handleJoinGroup")
def unknown_member_joins(probe: Probe) -> None:
    """JoinGroup with a member id that the server did not give has error UNKNOWN_MEMBER_ID."""
    answer = join(probe, join_alone(probe).group, _NO_MEMBER)
    probe.expect_error(answer.error_code, ErrorCode.UNKNOWN_MEMBER_ID)


@FAMILY.rule(
    "no-protocol-in-common", source="GroupCoordinator", section="INCONSISTENT_GROUP_PROTOCOL"
)
def no_protocol_in_common(probe: Probe) -> None:
    """A member of another protocol type has error INCONSISTENT_GROUP_PROTOCOL."""
    member = join_alone(probe)
    sync(probe, member, b"mine")
    answer = join(probe, member.group, "", protocol_type="connect")
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@FAMILY.rule("no-protocols", source="GroupCoordinator", section="INCONSISTENT_GROUP_PROTOCOL")
def no_protocols(probe: Probe) -> None:
    """A first member without any protocol has error INCONSISTENT_GROUP_PROTOCOL."""
    answer = join(
        probe, new_group(probe), "", protocols=[], version=probe.need(ApiKey.JOIN_GROUP, 2, 3)
    )
    probe.expect_error(answer.error_code, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


@FAMILY.rule("sync-of-old-generation", source="GroupCoordinator", section="handleSyncGroup")
def sync_of_old_generation(probe: Probe) -> None:
    """SyncGroup of another generation has error ILLEGAL_GENERATION."""
    answer = sync(probe, join_alone(probe), b"mine", generation=7)
    probe.expect_error(answer.error_code, ErrorCode.ILLEGAL_GENERATION)


@FAMILY.rule("rebalance-is-told", source="GroupCoordinator", section="REBALANCE_IN_PROGRESS")
def rebalance_is_told(probe: Probe) -> None:
    """When a second member joins, heartbeats of the first are answered with REBALANCE_IN_PROGRESS;
    both are in the next generation once the first has joined again.
    """
    first = join_alone(probe)
    sync(probe, first, b"mine")
    given = join(probe, first.group, "")
    probe.expect_error(given.error_code, ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE)
    waiting, number, version = _send_join(probe, first.group, given.member_id)
    probe.until(
        lambda: (
            _heartbeat(probe, first.group, first.member_id, first.generation)
            == ErrorCode.REBALANCE_IN_PROGRESS
        ),
        "REBALANCE_IN_PROGRESS",
    )
    again = join(probe, first.group, first.member_id)
    second = probe.receive(waiting, ApiKey.JOIN_GROUP, version, number)
    for answer in (again, second):
        probe.expect_error(answer.error_code, ErrorCode.NONE)
        probe.expect(
            answer.generation_id == first.generation + 1,
            f"generation {answer.generation_id} follows {first.generation}",
        )
    probe.expect(again.leader == second.leader, "the members have different leaders")
    sizes = sorted((len(again.members), len(second.members)))
    probe.expect(sizes == [0, 2], f"the members get lists of {sizes} members")


def _send_join(probe: Probe, group: str, member_id: str) -> tuple[Connection, int, int]:
    version = probe.newest(ApiKey.JOIN_GROUP)
    connection = probe.connect()
    number, data = probe.encode(join_request(group, member_id), version)
    connection.send_request(data, ApiKey.JOIN_GROUP, version)
    return connection, number, version


@FAMILY.rule("static-member", source="KIP-345", section="JoinGroup v5", since="2.3")
def static_member(probe: Probe) -> None:
    """A member with a group instance id joins at once, without MEMBER_ID_REQUIRED."""
    version = probe.need(ApiKey.JOIN_GROUP, *range(5, 10))
    answer = join(probe, new_group(probe), "", version=version, group_instance_id="static-1")
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    found = [one.group_instance_id for one in answer.members]
    probe.expect(found == ["static-1"], f"the members have instance ids {found}")


@FAMILY.rule("static-member-fenced", source="KIP-345", section="FENCED_INSTANCE_ID", since="2.3")
def static_member_fenced(probe: Probe) -> None:
    """A heartbeat with a known instance id and another member id has error FENCED_INSTANCE_ID."""
    version = probe.need(ApiKey.JOIN_GROUP, *range(5, 10))
    group = new_group(probe)
    answer = join(probe, group, "", version=version, group_instance_id="static-1")
    probe.expect_error(answer.error_code, ErrorCode.NONE)
    code = _heartbeat(probe, group, _NO_MEMBER, answer.generation_id, group_instance_id="static-1")
    probe.expect_error(code, ErrorCode.FENCED_INSTANCE_ID)


@FAMILY.rule("described", source="DescribeGroupsResponse.json", section="Groups")
def is_described(probe: Probe) -> None:
    """DescribeGroups shows a group that is Stable with its protocol, members, and their metadata
    and assignments.
    """
    member = join_alone(probe)
    sync(probe, member, b"mine")
    group = described(probe, member.group)
    probe.expect_error(group.error_code, ErrorCode.NONE)
    probe.expect(group.group_state == "Stable", f"the group is {group.group_state}")
    probe.expect(
        (group.protocol_type, group.protocol_data) == ("consumer", "range"),
        f"the protocol is {group.protocol_type}, {group.protocol_data}",
    )
    found = [
        (one.member_id, bytes(one.member_metadata), bytes(one.member_assignment))
        for one in group.members
    ]
    probe.expect(found == [(member.member_id, SUBSCRIPTION, b"mine")], f"the members are {found}")


@FAMILY.rule("unknown-group-described", source="KIP-1043", section="DescribeGroups v6", since="4.0")
def unknown_group_described(probe: Probe) -> None:
    """A group that does not exist is described as Dead; from version 6 on with error
    GROUP_ID_NOT_FOUND.
    """
    group = described(probe, new_group(probe))
    wanted = (
        ErrorCode.GROUP_ID_NOT_FOUND
        if probe.newest(ApiKey.DESCRIBE_GROUPS) >= 6
        else ErrorCode.NONE
    )
    probe.expect_error(group.error_code, wanted)
    probe.expect(group.group_state == "Dead", f"the group is {group.group_state}")


@FAMILY.rule("listed", source="KIP-518", section="ListGroups v4", since="2.6")
def listed(probe: Probe) -> None:
    """ListGroups shows a group with its state, and only the states that were asked for."""
    version = probe.need(ApiKey.LIST_GROUPS, 4, 5)
    member = join_alone(probe)
    sync(probe, member, b"mine")
    answer = probe.call(ListGroupsRequest(states_filter=["Stable"]), version)
    states = {group.group_id: group.group_state for group in answer.groups}
    probe.expect(states.get(member.group) == "Stable", "the group is missing among stable groups")
    probe.expect(set(states.values()) == {"Stable"}, f"stable groups have states {states}")
    empty = probe.call(ListGroupsRequest(states_filter=["Empty"]), version)
    probe.expect(
        member.group not in {group.group_id for group in empty.groups}, "a stable group is Empty"
    )


@FAMILY.rule("listed-by-type", source="KIP-848", section="ListGroups v5", since="3.8")
def listed_by_type(probe: Probe) -> None:
    """ListGroups of version 5 shows the type of a group, and only the types that were asked for."""
    version = probe.need(ApiKey.LIST_GROUPS, 5)
    member = join_alone(probe)
    # Kafka lists groups as of its last committed offset, and a group is written when it syncs.
    sync(probe, member, b"mine")
    answer = probe.call(ListGroupsRequest(types_filter=["classic"]), version)
    types = {group.group_id: group.group_type for group in answer.groups}
    probe.expect(types.get(member.group) == "classic", f"the group is {types.get(member.group)}")
    other = probe.call(ListGroupsRequest(types_filter=["consumer"]), version)
    probe.expect(
        member.group not in {group.group_id for group in other.groups}, "a classic group is listed"
    )


def _delete(probe: Probe, group: str) -> int:
    [one] = probe.call(DeleteGroupsRequest(groups_names=[group])).results
    code: int = one.error_code
    return code


@FAMILY.rule(
    "delete-with-members",
    source="KIP-229",
    section="NON_EMPTY_GROUP",
    since="1.1",
    apis=(*MEMBERS, ApiKey.DELETE_GROUPS),
)
def delete_with_members(probe: Probe) -> None:
    """A group with members is not deleted: NON_EMPTY_GROUP."""
    member = join_alone(probe)
    probe.expect_error(_delete(probe, member.group), ErrorCode.NON_EMPTY_GROUP)


@FAMILY.rule(
    "delete-empty",
    source="KIP-229",
    section="DeleteGroups",
    since="1.1",
    apis=(*MEMBERS, ApiKey.DELETE_GROUPS),
)
def delete_empty(probe: Probe) -> None:
    """A group whose last member has left is deleted, and is Dead behind it."""
    member = join_alone(probe)
    sync(probe, member, b"mine")
    _leave(probe, member)
    probe.expect_error(_delete(probe, member.group), ErrorCode.NONE)
    state = described(probe, member.group).group_state
    probe.expect(state == "Dead", f"the group is {state} behind its deletion")


@FAMILY.rule(
    "delete-unknown",
    source="KIP-229",
    section="GROUP_ID_NOT_FOUND",
    since="1.1",
    apis=(*MEMBERS, ApiKey.DELETE_GROUPS),
)
def delete_unknown(probe: Probe) -> None:
    """A group that does not exist is not deleted: GROUP_ID_NOT_FOUND."""
    probe.expect_error(_delete(probe, new_group(probe)), ErrorCode.GROUP_ID_NOT_FOUND)
