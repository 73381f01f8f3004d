"""The seeded faults of a group coordinator, each with its rule."""

from __future__ import annotations

from typing import Any, Final

from kwire.protocol import ApiKey
from tests.conformance_faults.broker_changes import every, no_error
from tests.conformance_faults.changes import Row, faults_of, when


def _rejoins(request: Any) -> bool:
    return bool(request.member_id)


def _several(request: Any) -> bool:
    return len(request.coordinator_keys) > 1


def _odd_type(request: Any) -> bool:
    return bool(request.key_type == 99)


def _first_coordinator(answer: Any, request: Any) -> None:
    answer.coordinators = list(answer.coordinators)[:1]


GROUP_FAULTS: Final[list[Row]] = [
    *faults_of(
        ApiKey.JOIN_GROUP,
        ("members without ids join", "groups.member-id-required", no_error(79)),
        ("another member id", "groups.joins-with-given-id",
         when(_rejoins, every(leader="another"))),
        ("a leader without members", "groups.leader-gets-members", every(members=[])),
        ("no protocol type", "groups.protocol-type", every(protocol_type=None)),
        ("groups without ids", "groups.empty-group-id", no_error(24)),
        ("any session timeout", "groups.session-timeout-too-short", no_error(26)),
        ("unknown members join", "groups.unknown-member-joins", no_error(25)),
        ("any protocol type", "groups.no-protocol-in-common", no_error(23)),
        ("members without protocols", "groups.no-protocols", no_error(23)),
        ("generations stand still", "groups.rebalance-is-told", every(generation_id=1)),
        ("static members without their ids", "groups.static-member",
         every(group_instance_id=None)),
    ),
    *faults_of(
        ApiKey.SYNC_GROUP,
        ("another assignment", "groups.assignment-comes-back", every(assignment=b"other")),
        ("old generations synchronize", "groups.sync-of-old-generation", no_error(22)),
    ),
    *faults_of(
        ApiKey.HEARTBEAT,
        ("members are sent away", "groups.heartbeat", every(error_code=25)),
        ("old generations beat", "groups.heartbeat-of-old-generation", no_error(22)),
        ("unknown members beat", "groups.heartbeat-of-no-member", no_error(25)),
        ("members of no group beat", "groups.heartbeat-of-no-group", no_error(25)),
        ("members that left beat", "groups.leave", no_error(25)),
        ("two members of one instance", "groups.static-member-fenced", no_error(82)),
    ),
    *faults_of(
        ApiKey.LEAVE_GROUP,
        ("unknown members leave", "groups.leave-of-no-member", no_error(25)),
    ),
    *faults_of(
        ApiKey.DESCRIBE_GROUPS,
        ("groups are empty", "groups.described", every(group_state="Empty")),
        ("unknown groups are empty", "groups.unknown-group-described",
         every(group_state="Empty")),
    ),
    *faults_of(
        ApiKey.LIST_GROUPS,
        ("groups are not listed", "groups.listed", every(groups=[])),
        ("groups of another type", "groups.listed-by-type", every(group_type="consumer")),
    ),
    *faults_of(
        ApiKey.DELETE_GROUPS,
        ("groups with members are deleted", "groups.delete-with-members", no_error(68)),
        ("empty groups are kept", "groups.delete-empty", every(error_code=68)),
        ("unknown groups are deleted", "groups.delete-unknown", no_error(69)),
    ),
]  # fmt: skip

OFFSET_FAULTS: Final[list[Row]] = [
    *faults_of(
        ApiKey.OFFSET_FETCH,
        ("another offset", "offsets.commit-and-fetch", every(committed_offset=7)),
        ("the highest offset", "offsets.last-commit-counts", every(committed_offset=5)),
        ("epochs are lost", "offsets.leader-epoch", every(committed_leader_epoch=-1)),
        ("metadata is made up", "offsets.null-metadata", every(metadata="x")),
        ("an offset where none is", "offsets.nothing-committed", every(committed_offset=0)),
        ("no topics of a group", "offsets.all-topics", every(topics=[])),
        ("one offset for all groups", "offsets.several-groups", every(committed_offset=0)),
        ("offsets of version 2", "offsets.same-in-all-versions", every(committed_offset=2)),
    ),
    *faults_of(
        ApiKey.OFFSET_COMMIT,
        ("any metadata", "offsets.metadata-too-large", no_error(12)),
        ("commits for unknown topics", "offsets.unknown-topic", no_error(3)),
        ("commits for unknown ids", "offsets.unknown-topic-id", no_error(100)),
        ("commits of no member", "offsets.commit-of-no-member", no_error(25)),
        ("commits of old generations", "offsets.commit-of-old-generation", no_error(22)),
        ("no commits of members", "offsets.commit-of-member", every(error_code=25)),
    ),
    *faults_of(
        ApiKey.FIND_COORDINATOR,
        ("a coordinator that is no broker", "offsets.coordinator-is-a-broker",
         every(node_id=99)),
        ("one of two coordinators", "offsets.several-coordinators",
         when(_several, _first_coordinator)),
        ("coordinators of any type", "offsets.unknown-coordinator-type",
         when(_odd_type, every(error_code=0))),
    ),
]  # fmt: skip
