"""Rules of BeginQuorumEpoch and EndQuorumEpoch (KIP-595, KIP-853).

No rule names another leader of the present epoch, or a newer epoch: Kafka's controllers end their
process for the first (``KafkaRaftClient.maybeTransition``), and follow a leader that is not there
for the second.
"""

from __future__ import annotations

from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import (
    OTHER_DIRECTORY,
    Quorum,
    find_quorum,
    leader_in,
    require_follower,
    require_leader,
)
from kwire.conformance.requests import NO_NODE
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.protocol import ApiKey, ErrorCode

_BEGIN: Final = (ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family(
    "quorum-epochs",
    "BeginQuorumEpoch and EndQuorumEpoch",
    roles=CONTROLLER,
    apis=_BEGIN,
    since="3.1",
)
_END: Final = (ApiKey.END_QUORUM_EPOCH, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)


def _begin(probe: Probe, quorum: Quorum, *versions: int, **fields: Any) -> Any:
    key = ApiKey.BEGIN_QUORUM_EPOCH
    version = probe.need(key, *versions) if versions else probe.newest(key)
    values = {"epoch": quorum.epoch, "leader_id": quorum.leader_id, **fields}
    request = requests.begin_epoch(quorum.cluster_id, **values)
    return requests.only_partition(probe, probe.call(request, version))


def _end(probe: Probe, quorum: Quorum, **fields: Any) -> Any:
    values = {"epoch": quorum.epoch, "leader_id": quorum.leader_id, **fields}
    request = requests.end_epoch(quorum.cluster_id, **values)
    return requests.only_partition(
        probe, probe.call(request, probe.newest(ApiKey.END_QUORUM_EPOCH))
    )


@FAMILY.rule("begin-again", source="KIP-595", section="BeginQuorumEpoch Request Handling")
def begin_again(probe: Probe) -> None:
    """A BeginQuorumEpoch of the leader and epoch that the node knows is accepted: its epoch is not
    smaller, and it contradicts nothing.
    """
    partition = _begin(probe, find_quorum(probe))
    probe.expect_error(partition.error_code, ErrorCode.NONE)


@FAMILY.rule("begin-names-leader", source="KIP-595", section="Leader Election and Data Replication")
def begin_names_leader(probe: Probe) -> None:
    """A BeginQuorumEpoch that is accepted is answered with that leader and epoch."""
    quorum = find_quorum(probe)
    told = leader_in(_begin(probe, quorum))
    probe.expect(
        told == (quorum.leader_id, quorum.epoch),
        f"the answer names leader {told[0]} and epoch {told[1]} to leader {quorum.leader_id} of "
        f"epoch {quorum.epoch}",
    )


@FAMILY.rule("begin-leader-negative", source="KafkaRaftClient", section="validateVoterOnlyRequest")
def begin_leader_negative(probe: Probe) -> None:
    """A BeginQuorumEpoch of a leader with a negative id is refused with INVALID_REQUEST."""
    partition = _begin(probe, find_quorum(probe), leader_id=-1)
    probe.expect_error(partition.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule("begin-other-voter", source="KIP-853", section="BeginQuorumEpoch", since="3.9")
def begin_other_voter(probe: Probe) -> None:
    """A BeginQuorumEpoch that is meant for another node id is refused with INVALID_VOTER_KEY."""
    partition = _begin(probe, find_quorum(probe), 1, voter_id=NO_NODE)
    probe.expect_error(partition.error_code, ErrorCode.INVALID_VOTER_KEY)


@FAMILY.rule("begin-other-directory", source="KIP-853", section="BeginQuorumEpoch", since="3.9")
def begin_other_directory(probe: Probe) -> None:
    """A BeginQuorumEpoch that is meant for the node's id with another directory id is refused with
    INVALID_VOTER_KEY.
    """
    quorum = require_leader(probe)
    partition = _begin(
        probe, quorum, 1, voter_id=quorum.leader_id, voter_directory_id=OTHER_DIRECTORY
    )
    probe.expect_error(partition.error_code, ErrorCode.INVALID_VOTER_KEY)


@FAMILY.rule("begin-changes-nothing", source="KIP-595", section="BeginQuorumEpoch Request Handling")
def begin_changes_nothing(probe: Probe) -> None:
    """A BeginQuorumEpoch that is refused for its epoch changes neither leader nor epoch."""
    quorum = find_quorum(probe)
    partition = _begin(probe, quorum, epoch=quorum.epoch - 1, leader_id=NO_NODE)
    probe.expect_error(partition.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    _unchanged(probe, quorum)


@FAMILY.rule(
    "end-leader-negative", source="KafkaRaftClient", section="validateVoterOnlyRequest", apis=_END
)
def end_leader_negative(probe: Probe) -> None:
    """An EndQuorumEpoch of a leader with a negative id is refused with INVALID_REQUEST."""
    partition = _end(probe, find_quorum(probe), leader_id=-1)
    probe.expect_error(partition.error_code, ErrorCode.INVALID_REQUEST)


@FAMILY.rule(
    "end-changes-nothing", source="KIP-595", section="EndQuorumEpoch Request Handling", apis=_END
)
def end_changes_nothing(probe: Probe) -> None:
    """An EndQuorumEpoch that is refused for its epoch changes neither leader nor epoch."""
    quorum = find_quorum(probe)
    partition = _end(probe, quorum, epoch=quorum.epoch - 1)
    probe.expect_error(partition.error_code, ErrorCode.FENCED_LEADER_EPOCH)
    _unchanged(probe, quorum)


@FAMILY.rule(
    "end-at-leader",
    source="KafkaRaftClient",
    section="handleEndQuorumEpochRequest",
    apis=_END,
    changes=Changes.CLUSTER,
    alone=True,
)
def end_at_leader(probe: Probe) -> None:
    """A leader that gets an EndQuorumEpoch of its own epoch leads on: the request is for
    followers.
    """
    quorum = require_leader(probe)
    partition = _end(probe, quorum)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    _unchanged(probe, quorum)


@FAMILY.rule(
    "end-at-follower",
    source="KIP-595",
    section="EndQuorumEpoch Request Handling",
    apis=_END,
    changes=Changes.CLUSTER,
    alone=True,
)
def end_at_follower(probe: Probe) -> None:
    """A follower accepts the EndQuorumEpoch of its leader, and the quorum has a leader after
    it.
    """
    quorum = require_follower(probe)
    partition = _end(probe, quorum)
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    after = find_quorum(probe)
    probe.expect(
        after.epoch >= quorum.epoch, f"the epoch fell from {quorum.epoch} to {after.epoch}"
    )


def _unchanged(probe: Probe, quorum: Quorum) -> None:
    after = find_quorum(probe)
    probe.expect(
        (after.leader_id, after.epoch) == (quorum.leader_id, quorum.epoch),
        f"node {quorum.leader_id} led epoch {quorum.epoch}; now node {after.leader_id} leads epoch "
        f"{after.epoch}",
    )
