"""Rules of Vote (KIP-595), of voter keys (KIP-853) and of the pre-vote (KIP-996).

A Vote of a newer epoch ends the epoch of the leader, so rules that need one change the cluster;
they return when the quorum has a leader again. All others name the present epoch or an older one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from kwire.conformance import quorum as requests
from kwire.conformance.connection import Connection
from kwire.conformance.probe import Probe
from kwire.conformance.quorum import OTHER_DIRECTORY, Quorum, find_quorum, leader_in, require_leader
from kwire.conformance.requests import NO_NODE
from kwire.conformance.rule import CONTROLLER, Changes, Family
from kwire.message import Message
from kwire.protocol import ApiKey, ErrorCode

_APIS: Final = (ApiKey.VOTE, ApiKey.FETCH, ApiKey.DESCRIBE_QUORUM)
FAMILY: Final = Family("vote", "Vote and pre-vote", roles=CONTROLLER, apis=_APIS, since="3.1")
_HANDLING: Final = "Vote Request Handling"
#: Ends behind every log, so that a voter has no reason to refuse.
_FAR: Final = 1 << 40
_CANDIDATES: Final = (NO_NODE - 1, NO_NODE - 2)


def _vote(probe: Probe, request: Message, on: Connection | None = None, *versions: int) -> Any:
    version = probe.need(ApiKey.VOTE, *versions) if versions else probe.newest(ApiKey.VOTE)
    return requests.only_partition(probe, probe.call(request, version, on))


def _stale(quorum: Quorum, **fields: Any) -> Message:
    """A Vote of the present epoch, by a candidate with an empty log."""
    values = {"epoch": quorum.epoch, "log_end": (quorum.epoch - 1, 0), **fields}
    return requests.vote(quorum.cluster_id, **values)


def _refuses(probe: Probe, partition: Any) -> None:
    probe.expect(not partition.vote_granted, "the vote is granted")


@FAMILY.rule("leader-of-the-epoch", source="KIP-595", section=_HANDLING)
def leader_of_the_epoch(probe: Probe) -> None:
    """A node that knows the leader of an epoch grants no vote in that epoch, and reports no
    error.
    """
    quorum = find_quorum(probe)
    partition = _vote(probe, _stale(quorum, log_end=(quorum.epoch - 1, _FAR)))
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    _refuses(probe, partition)


@FAMILY.rule("names-leader", source="KIP-595", section="Leader Election and Data Replication")
def names_leader(probe: Probe) -> None:
    """A Vote that is answered without an error names the present leader and epoch."""
    quorum = find_quorum(probe)
    told = leader_in(_vote(probe, _stale(quorum)))
    probe.expect(
        told == (quorum.leader_id, quorum.epoch),
        f"the answer names leader {told[0]} and epoch {told[1]}; node {quorum.leader_id} leads "
        f"epoch {quorum.epoch}",
    )


def _invalid(probe: Probe, **fields: Any) -> None:
    partition = _vote(probe, _stale(find_quorum(probe), **fields))
    probe.expect_error(partition.error_code, ErrorCode.INVALID_REQUEST)
    _refuses(probe, partition)


@FAMILY.rule("log-of-the-epoch", source="KIP-595", section="Vote: CandidateEpoch is bumped")
def log_of_the_epoch(probe: Probe) -> None:
    """A candidate whose log has records of the epoch that it stands for is refused with
    INVALID_REQUEST: a candidate increments its epoch.
    """
    epoch = find_quorum(probe).epoch
    _invalid(probe, log_end=(epoch, 1))


@FAMILY.rule("log-of-a-later-epoch", source="KafkaRaftClient", section="handleVoteRequest")
def log_of_a_later_epoch(probe: Probe) -> None:
    """A candidate whose log has records of an epoch after the one that it stands for is refused
    with INVALID_REQUEST.
    """
    epoch = find_quorum(probe).epoch
    _invalid(probe, log_end=(epoch + 1, 1))


@FAMILY.rule("offset-negative", source="KafkaRaftClient", section="handleVoteRequest")
def offset_negative(probe: Probe) -> None:
    """A candidate whose log ends at a negative offset is refused with INVALID_REQUEST."""
    epoch = find_quorum(probe).epoch
    _invalid(probe, log_end=(epoch - 1, -1))


@FAMILY.rule("last-epoch-negative", source="KafkaRaftClient", section="handleVoteRequest")
def last_epoch_negative(probe: Probe) -> None:
    """A candidate whose log ends in a negative epoch is refused with INVALID_REQUEST."""
    _invalid(probe, log_end=(-1, 0))


@FAMILY.rule("candidate-negative", source="KafkaRaftClient", section="validateVoterOnlyRequest")
def candidate_negative(probe: Probe) -> None:
    """A candidate with a negative id is refused with INVALID_REQUEST."""
    _invalid(probe, replica_id=-1)


def _other_voter(probe: Probe, **fields: Any) -> None:
    partition = _vote(probe, _stale(find_quorum(probe), **fields), None, 1, 2)
    probe.expect_error(partition.error_code, ErrorCode.INVALID_VOTER_KEY)
    _refuses(probe, partition)


@FAMILY.rule("other-voter", source="KIP-853", section="Vote", since="3.9")
def other_voter(probe: Probe) -> None:
    """A Vote that is meant for another node id is refused with INVALID_VOTER_KEY."""
    _other_voter(probe, voter_id=NO_NODE)


@FAMILY.rule("other-directory", source="KIP-853", section="Vote", since="3.9")
def other_directory(probe: Probe) -> None:
    """A Vote that is meant for the node's id with another directory id is refused with
    INVALID_VOTER_KEY: the disk whose vote it asks for is gone.
    """
    quorum = require_leader(probe)
    _other_voter(probe, voter_id=quorum.leader_id, voter_directory_id=OTHER_DIRECTORY)


def _pre_vote(probe: Probe, quorum: Quorum, log_end: tuple[int, int]) -> Any:
    request = requests.vote(quorum.cluster_id, epoch=quorum.epoch, log_end=log_end, pre_vote=True)
    return _vote(probe, request, None, 2)


@FAMILY.rule("pre-vote-refused", source="KIP-996", section="Follower", since="4.0")
def pre_vote_refused(probe: Probe) -> None:
    """A node that hears the leader, or leads, does not grant a pre-vote, however long the
    candidate's log is.
    """
    quorum = find_quorum(probe)
    partition = _pre_vote(probe, quorum, (quorum.epoch, _FAR))
    probe.expect_error(partition.error_code, ErrorCode.NONE)
    _refuses(probe, partition)


@FAMILY.rule("pre-vote-log-of-the-epoch", source="KIP-996", section="Vote RPC", since="4.0")
def pre_vote_log_of_the_epoch(probe: Probe) -> None:
    """A pre-vote whose sender has records of the epoch that it names is no invalid request: a
    pre-vote names the sender's own epoch.
    """
    quorum = find_quorum(probe)
    partition = _pre_vote(probe, quorum, (quorum.epoch, 1))
    probe.expect_error(partition.error_code, ErrorCode.NONE)


@FAMILY.rule("pre-vote-keeps-epoch", source="KIP-996", section="Proposed Changes", since="4.0")
def pre_vote_keeps_epoch(probe: Probe) -> None:
    """A pre-vote changes neither the epoch nor the leader."""
    quorum = find_quorum(probe)
    told = leader_in(_pre_vote(probe, quorum, (quorum.epoch, _FAR)))
    after = find_quorum(probe)
    probe.expect(
        told == (quorum.leader_id, quorum.epoch)
        and (after.leader_id, after.epoch) == (quorum.leader_id, quorum.epoch),
        f"node {quorum.leader_id} led epoch {quorum.epoch}; the answer names leader {told[0]} and "
        f"epoch {told[1]}, and then node {after.leader_id} leads epoch {after.epoch}",
    )


# --- Votes that end an epoch ----------------------------------------------------------------------


@contextlib.contextmanager
def _newer_epoch(probe: Probe) -> Iterator[tuple[Quorum, Connection]]:
    """The quorum before, and a connection for Votes of its next epoch. At the end the quorum has a
    leader of a newer epoch, which has committed a record.
    """
    quorum = require_leader(probe)
    try:
        yield quorum, probe.connect()
    finally:
        probe.until(lambda: _recovered(probe, quorum.epoch), "a leader after the election")


def _recovered(probe: Probe, epoch: int) -> bool:
    after = find_quorum(probe)
    if after.epoch <= epoch:
        return False
    return not after.leads or requests.fetched(probe, after).high_watermark >= 0


def _of_the_next(quorum: Quorum, candidate: int, log_end: tuple[int, int]) -> Message:
    return requests.vote(
        quorum.cluster_id, epoch=quorum.epoch + 1, log_end=log_end, replica_id=candidate
    )


@FAMILY.rule(
    "newer-epoch-is-taken", source="KIP-595", section=_HANDLING, changes=Changes.CLUSTER, alone=True
)
def newer_epoch_is_taken(probe: Probe) -> None:
    """A Vote of a newer epoch makes the node, a leader too, move to that epoch, even if the vote is
    not granted.
    """
    with _newer_epoch(probe) as (quorum, connection):
        partition = _vote(probe, _of_the_next(quorum, _CANDIDATES[0], (0, 0)), connection)
        probe.expect_error(partition.error_code, ErrorCode.NONE)
        leader, epoch = leader_in(partition)
        probe.expect(
            epoch == quorum.epoch + 1, f"the epoch is {epoch} after a Vote of {quorum.epoch + 1}"
        )
        probe.expect(leader == -1, f"the answer names leader {leader} of an epoch without one")


@FAMILY.rule(
    "shorter-log", source="KIP-595", section=_HANDLING, changes=Changes.CLUSTER, alone=True
)
def shorter_log(probe: Probe) -> None:
    """A candidate whose log is behind that of the voter does not get its vote."""
    with _newer_epoch(probe) as (quorum, connection):
        _refuses(probe, _vote(probe, _of_the_next(quorum, _CANDIDATES[0], (0, 0)), connection))
        _refuses(
            probe, _vote(probe, _of_the_next(quorum, _CANDIDATES[0], (quorum.epoch, 0)), connection)
        )


@FAMILY.rule(
    "older-last-epoch", source="KIP-595", section=_HANDLING, changes=Changes.CLUSTER, alone=True
)
def older_last_epoch(probe: Probe) -> None:
    """A candidate whose last record is of an older epoch does not get the vote, however long its
    log is.
    """
    with _newer_epoch(probe) as (quorum, connection):
        request = _of_the_next(quorum, _CANDIDATES[0], (quorum.epoch - 1, _FAR))
        _refuses(probe, _vote(probe, request, connection))


@FAMILY.rule(
    "one-vote-an-epoch", source="KIP-595", section=_HANDLING, changes=Changes.CLUSTER, alone=True
)
def one_vote_an_epoch(probe: Probe) -> None:
    """A voter grants one candidate its vote in an epoch, grants it to the same one again, and to no
    other.
    """
    with _newer_epoch(probe) as (quorum, connection):
        log_end = (quorum.epoch, _FAR)
        first, other = (_of_the_next(quorum, candidate, log_end) for candidate in _CANDIDATES)
        granted = [_vote(probe, one, connection) for one in (first, other, first)]
        if any(leader_in(one)[1] != quorum.epoch + 1 for one in granted):
            probe.not_applicable("another election came between")
        votes = [one.vote_granted for one in granted]
        probe.expect(votes[0], "a candidate with a longer log does not get the vote")
        probe.expect(not votes[1], "a second candidate of the epoch gets the vote as well")
        probe.expect(votes[2], "the candidate does not get the same vote again")
