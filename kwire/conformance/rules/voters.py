"""Rules of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter (KIP-853).

Every change here is refused: it names another cluster, another epoch, or a voter that is not there.
A static quorum (kraft.version 0) refuses to add and to remove with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance.probe import Probe
from kwire.conformance.quorum import (
    OTHER_CLUSTER,
    OTHER_DIRECTORY,
    Quorum,
    describe_quorum,
    find_quorum,
    only_partition,
    require_follower,
    require_leader,
)
from kwire.conformance.requests import NO_NODE
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.messages import add_raft_voter_request, update_raft_voter_request
from kwire.messages.add_raft_voter_request import AddRaftVoterRequest
from kwire.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kwire.messages.update_raft_voter_request import KRaftVersionFeature, UpdateRaftVoterRequest
from kwire.protocol import ApiKey, ErrorCode
from kwire.uuid import ZERO_UUID, Uuid

_LEADER: Final = (ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
_ADD: Final = (ApiKey.ADD_RAFT_VOTER, *_LEADER)
_REMOVE: Final = (ApiKey.REMOVE_RAFT_VOTER, *_LEADER)
_UPDATE: Final = (ApiKey.UPDATE_RAFT_VOTER, *_LEADER)
FAMILY: Final = Family(
    "voters",
    "AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter",
    roles=CONTROLLER,
    apis=_ADD,
    since="3.9",
)
_TEXT: Final = "KIP-853"
#: A listener name that no node has.
_NO_LISTENER: Final = "KWIRE-CONFORM"


def _listeners(probe: Probe, quorum: Quorum, form: Any) -> list[Any]:
    """The endpoints of the leader, under the listener names that the quorum uses."""
    answer = probe.call(describe_quorum(), probe.need(ApiKey.DESCRIBE_QUORUM, 2))
    return [
        form(name=at.name, host=at.host, port=at.port)
        for node in answer.nodes
        if node.node_id == quorum.leader_id
        for at in node.listeners
    ]


def _directory(probe: Probe, quorum: Quorum) -> Uuid:
    """The directory id of the leader, the zero id in a static quorum."""
    answer = probe.call(describe_quorum(), probe.need(ApiKey.DESCRIBE_QUORUM, 2))
    voters = only_partition(probe, answer).current_voters
    found = [one for one in voters if one.replica_id == quorum.leader_id]
    probe.expect(len(found) == 1, "DescribeQuorum names no voter that leads")
    return Uuid(found[0].replica_directory_id)


def _add(probe: Probe, quorum: Quorum, **fields: Any) -> int:
    values: dict[str, Any] = {
        "cluster_id": quorum.cluster_id,
        "timeout_ms": 1000,
        "voter_id": NO_NODE,
        "voter_directory_id": OTHER_DIRECTORY,
        **fields,
    }
    if "listeners" not in values:
        values["listeners"] = _listeners(probe, quorum, add_raft_voter_request.Listener)
    return int(probe.call(AddRaftVoterRequest(**values)).error_code)


def _remove(probe: Probe, quorum: Quorum, **fields: Any) -> int:
    values: dict[str, Any] = {
        "cluster_id": quorum.cluster_id,
        "voter_id": NO_NODE,
        "voter_directory_id": OTHER_DIRECTORY,
        **fields,
    }
    return int(probe.call(RemoveRaftVoterRequest(**values)).error_code)


def _update(probe: Probe, quorum: Quorum, **fields: Any) -> Any:
    values: dict[str, Any] = {
        "cluster_id": quorum.cluster_id,
        "current_leader_epoch": quorum.epoch,
        "voter_id": NO_NODE,
        "voter_directory_id": OTHER_DIRECTORY,
        "k_raft_version_feature": KRaftVersionFeature(
            min_supported_version=0, max_supported_version=1
        ),
        **fields,
    }
    if "listeners" not in values:
        values["listeners"] = _listeners(probe, quorum, update_raft_voter_request.Listener)
    return probe.call(UpdateRaftVoterRequest(**values))


@FAMILY.rule("add-other-cluster", source=_TEXT, section="AddRaftVoter")
def add_other_cluster(probe: Probe) -> None:
    """AddRaftVoter of another cluster is refused with INCONSISTENT_CLUSTER_ID."""
    error = _add(probe, require_leader(probe), cluster_id=OTHER_CLUSTER)
    probe.expect_error(error, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule("add-no-endpoint", source=_TEXT, section="AddRaftVoter")
def add_no_endpoint(probe: Probe) -> None:
    """AddRaftVoter without an endpoint of the quorum's listener is refused with
    INVALID_REQUEST.
    """
    listener = add_raft_voter_request.Listener(name=_NO_LISTENER, host="127.0.0.1", port=1)
    error = _add(probe, require_leader(probe), listeners=[listener])
    probe.expect_error(error, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("add-no-id", source="KafkaRaftClient", section="handleAddVoterRequest")
def add_no_id(probe: Probe) -> None:
    """AddRaftVoter of a voter with a negative id is refused with INVALID_REQUEST."""
    error = _add(probe, require_leader(probe), voter_id=-1)
    probe.expect_error(error, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("add-no-directory", source=_TEXT, section="AddRaftVoter")
def add_no_directory(probe: Probe) -> None:
    """AddRaftVoter of a voter without a directory id is refused with INVALID_REQUEST."""
    error = _add(probe, require_leader(probe), voter_directory_id=ZERO_UUID)
    probe.expect_error(error, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("add-voter-again", source=_TEXT, section="AddRaftVoter")
def add_voter_again(probe: Probe) -> None:
    """AddRaftVoter of a node that is a voter is refused with DUPLICATE_VOTER, and by a static
    quorum with UNSUPPORTED_VERSION.
    """
    quorum = require_leader(probe)
    error = _add(probe, quorum, voter_id=quorum.leader_id)
    probe.expect_error(error, ErrorCode.DUPLICATE_VOTER, ErrorCode.UNSUPPORTED_VERSION)


@FAMILY.rule("add-not-leader", source=_TEXT, section="AddRaftVoter")
def add_not_leader(probe: Probe) -> None:
    """A node that does not lead refuses AddRaftVoter with NOT_LEADER_OR_FOLLOWER."""
    quorum = require_follower(probe)
    listener = add_raft_voter_request.Listener(name=_NO_LISTENER, host="127.0.0.1", port=1)
    probe.expect_error(_add(probe, quorum, listeners=[listener]), ErrorCode.NOT_LEADER_OR_FOLLOWER)


@FAMILY.rule("remove-other-cluster", source=_TEXT, section="RemoveRaftVoter", apis=_REMOVE)
def remove_other_cluster(probe: Probe) -> None:
    """RemoveRaftVoter of another cluster is refused with INCONSISTENT_CLUSTER_ID."""
    error = _remove(probe, require_leader(probe), cluster_id=OTHER_CLUSTER)
    probe.expect_error(error, ErrorCode.INCONSISTENT_CLUSTER_ID)


@FAMILY.rule("remove-unknown", source=_TEXT, section="RemoveRaftVoter", apis=_REMOVE)
def remove_unknown(probe: Probe) -> None:
    """RemoveRaftVoter of a node that is no voter is refused with VOTER_NOT_FOUND, and by a static
    quorum with UNSUPPORTED_VERSION.
    """
    quorum = require_leader(probe)
    error = _remove(probe, quorum)
    probe.expect_error(error, ErrorCode.VOTER_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


@FAMILY.rule("remove-other-directory", source=_TEXT, section="RemoveRaftVoter", apis=_REMOVE)
def remove_other_directory(probe: Probe) -> None:
    """RemoveRaftVoter of a voter's id with another directory id is refused: it is another voter."""
    quorum = require_leader(probe)
    error = _remove(probe, quorum, voter_id=quorum.leader_id)
    probe.expect_error(error, ErrorCode.VOTER_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


@FAMILY.rule(
    "remove-last",
    source=_TEXT,
    section="RemoveRaftVoter",
    apis=_REMOVE,
    changes=Changes.CLUSTER,
    alone=True,
)
def remove_last(probe: Probe) -> None:
    """The only voter of a quorum cannot be removed."""
    quorum = require_leader(probe)
    if len(quorum.voters) != 1:
        probe.not_applicable(f"the quorum has {len(quorum.voters)} voters")
    directory = _directory(probe, quorum)
    error = _remove(probe, quorum, voter_id=quorum.leader_id, voter_directory_id=directory)
    probe.expect(error != ErrorCode.NONE, "the last voter is removed")
    after = find_quorum(probe)
    probe.expect(after.voters == quorum.voters, f"the voters are {after.voters} after it")


def _update_error(probe: Probe, *errors: ErrorCode, **fields: Any) -> None:
    answer = _update(probe, require_leader(probe), **fields)
    probe.expect_error(answer.error_code, *errors)


@FAMILY.rule("update-other-cluster", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_other_cluster(probe: Probe) -> None:
    """UpdateRaftVoter of another cluster is refused with INCONSISTENT_CLUSTER_ID."""
    _update_error(probe, ErrorCode.INCONSISTENT_CLUSTER_ID, cluster_id=OTHER_CLUSTER)


@FAMILY.rule("update-old-epoch", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_old_epoch(probe: Probe) -> None:
    """UpdateRaftVoter of an old epoch is refused with FENCED_LEADER_EPOCH, and names the leader."""
    quorum = require_leader(probe)
    answer = _update(probe, quorum, current_leader_epoch=quorum.epoch - 1)
    probe.expect_error(answer.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    told = (answer.current_leader.leader_id, answer.current_leader.leader_epoch)
    probe.expect(
        told == (quorum.leader_id, quorum.epoch),
        f"the answer names leader {told[0]}, epoch {told[1]}",
    )


@FAMILY.rule("update-newer-epoch", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_newer_epoch(probe: Probe) -> None:
    """UpdateRaftVoter of an epoch after the leader's is refused with UNKNOWN_LEADER_EPOCH."""
    quorum = require_leader(probe)
    answer = _update(probe, quorum, current_leader_epoch=quorum.epoch + 1)
    probe.expect_error(answer.error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)


@FAMILY.rule("update-unknown", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_unknown(probe: Probe) -> None:
    """UpdateRaftVoter of a node that is no voter is refused with VOTER_NOT_FOUND."""
    _update_error(probe, ErrorCode.VOTER_NOT_FOUND)


@FAMILY.rule("update-no-endpoint", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_no_endpoint(probe: Probe) -> None:
    """UpdateRaftVoter without an endpoint of the quorum's listener is refused with
    INVALID_REQUEST.
    """
    listener = update_raft_voter_request.Listener(name=_NO_LISTENER, host="127.0.0.1", port=1)
    _update_error(probe, ErrorCode.INVALID_REQUEST, listeners=[listener])


@FAMILY.rule("update-versions", source=_TEXT, section="UpdateVoter", apis=_UPDATE)
def update_versions(probe: Probe) -> None:
    """UpdateRaftVoter of a voter that does not support the quorum's kraft.version is refused with
    INVALID_REQUEST.
    """
    versions = KRaftVersionFeature(min_supported_version=7, max_supported_version=8)
    _update_error(probe, ErrorCode.INVALID_REQUEST, k_raft_version_feature=versions)
