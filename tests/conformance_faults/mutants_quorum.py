"""Bugs of the metadata quorum: votes, epochs, Fetch of replicas and DescribeQuorum."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from gateway.quorum import checks, describing, election, quorum_requests, responses, serving
from gateway.quorum.election import Election
from gateway.quorum.node import Node
from gateway.quorum.replicated_log import VALID, ReplicatedLog
from gateway.quorum.roles import Leader
from gateway.quorum.serving import Serving
from kwire.protocol import ErrorCode
from tests.conformance_faults.mutants import mutant, without_error, wrapped
from tests.patches import patched, together

Context = AbstractContextManager[Any]


# --- votes


@mutant("vote.one-vote-an-epoch")
def votes_are_given_twice() -> Context:
    """A second candidate of an epoch gets the vote, too."""

    def grants(original: Any, self: Election, candidate: int, directory: Any, *more: Any) -> bool:
        voted = self._node.election.voted_id
        again = voted not in (-1, self._node.settings.node_id)
        return original(self, voted if again else candidate, directory, *more)

    def grant(original: Any, self: Election, candidate: int, directory: Any) -> None:
        if self._node.election.voted_id < 0:
            original(self, candidate, directory)

    return together(wrapped(Election, "_grants", grants), wrapped(Election, "_grant", grant))


@mutant("vote.newer-epoch-is-taken", waits=True)
def epochs_are_not_raised() -> Context:
    """A leader that gets a Vote of a newer epoch stays in its own."""

    def become(original: Any, self: Node, epoch: int, *more: Any, **named: Any) -> None:
        if not (isinstance(self.role, Leader) and epoch > self.epoch):
            original(self, epoch, *more, **named)

    return wrapped(Node, "become_unattached", become)


@mutant("vote.shorter-log")
def every_log_is_good_enough() -> Context:
    """A candidate whose log is behind that of the voter gets its vote."""
    return patched(election, _is_up_to_date=lambda candidate, local: True)


@mutant("vote.older-last-epoch")
def the_longer_log_wins() -> Context:
    """The last epochs of the two logs are not compared, only their lengths."""
    return patched(
        election, _is_up_to_date=lambda candidate, local: candidate.offset >= local.offset
    )


@mutant("vote.pre-vote-refused")
def leaders_grant_pre_votes() -> Context:
    """A leader grants a pre-vote."""

    def grants(original: Any, self: Election, candidate: int, directory: Any, *more: Any) -> bool:
        return bool(more[-1] or original(self, candidate, directory, *more))

    return wrapped(Election, "_grants", grants)


@mutant("vote.leader-of-the-epoch")
def leaders_grant_votes() -> Context:
    """The leader of an epoch grants another candidate a vote in it."""

    def grants(original: Any, self: Election, *values: Any) -> bool:
        return bool(isinstance(self._node.role, Leader) or original(self, *values))

    return together(
        wrapped(Election, "_grants", grants),
        patched(Election, _grant=lambda self, candidate, directory: None),
    )


@mutant("vote.offset-negative")
def fields_of_votes_are_not_checked() -> Context:
    """A Vote with a negative offset is no invalid request."""

    def error(original: Any, self: Election, partition: Any) -> ErrorCode:
        partition.last_offset = max(partition.last_offset, 0)
        found: ErrorCode = original(self, partition)
        return found

    return wrapped(Election, "_vote_error", error)


@mutant("vote.candidate-negative")
def candidates_need_no_id() -> Context:
    """A candidate with a negative id is no invalid request."""
    return wrapped(checks, "voter_only", without_error(ErrorCode.INVALID_REQUEST))


@mutant("vote.other-voter")
def votes_for_other_voters_are_taken() -> Context:
    """A Vote that is meant for another node is answered."""

    def is_meant(original: Any, node: Any, voter_id: int, directory_id: Any) -> bool:
        return bool(original(node, -1, directory_id))

    return wrapped(checks, "is_meant_for", is_meant)


@mutant("vote.other-directory")
def votes_for_other_disks_are_taken() -> Context:
    """A Vote that is meant for the disk that this node had before is answered."""

    def is_meant(original: Any, node: Any, voter_id: int, directory_id: Any) -> bool:
        return bool(original(node, voter_id, node.settings.directory_id))

    return wrapped(checks, "is_meant_for", is_meant)


@mutant("vote.names-leader")
def leaders_of_votes_are_not_told() -> Context:
    """A Vote response names no leader."""

    def vote(original: Any, node: Any, asked: Any, error: ErrorCode, granted: bool = False) -> None:
        with patched(Node, leader_id=-1):
            original(node, asked, error, granted)

    return wrapped(responses, "vote", vote)


# --- all requests of the quorum


@mutant("raft.BeginQuorumEpoch.other-cluster")
def cluster_ids_are_not_compared() -> Context:
    """Requests of another cluster are served."""
    return patched(checks, is_other_cluster=lambda node, cluster_id: False)


@mutant("raft.Fetch.null-cluster")
def cluster_ids_are_demanded() -> Context:
    """A request without a cluster id is refused."""
    return patched(checks, is_other_cluster=lambda node, cluster_id: cluster_id != node.cluster_id)


@mutant("raft.EndQuorumEpoch.old-epoch")
def old_epochs_are_not_fenced() -> Context:
    """An EndQuorumEpoch of an epoch that is over is taken."""
    return wrapped(checks, "voter_only", without_error(ErrorCode.FENCED_LEADER_EPOCH))


@mutant("raft.Vote.partition-twice")
def the_first_partition_counts() -> Context:
    """Of several partitions in a request the first one is looked at."""

    def only(original: Any, topics: Any) -> Any:
        for topic in topics:
            topic.partitions = topic.partitions[:1]
        return original(topics[:1])

    return wrapped(checks, "only_partition", only)


@mutant("raft.Vote.names-endpoint")
def endpoints_are_not_told() -> Context:
    """Responses name the leader without its endpoint."""
    return patched(responses, _endpoints=lambda node, listener, endpoint: [])


@mutant("quorum-epochs.begin-other-voter")
def announcements_for_others_are_taken() -> Context:
    """A BeginQuorumEpoch that is meant for another node gets no error."""
    return patched(checks, is_meant_for=lambda node, voter_id, directory_id: True)


@mutant("quorum-epochs.end-at-leader")
def leaders_end_their_own_epoch() -> Context:
    """A leader that gets an EndQuorumEpoch of its own epoch resigns."""

    def on_end(original: Any, self: Any, asked: Any) -> None:
        original(self, asked)
        self._node.become_unattached(self._node.epoch + 1)

    return wrapped(quorum_requests.QuorumRequests, "on_end", on_end)


# --- Fetch of replicas


@mutant("replica-fetch.newer-epoch")
def newer_epochs_are_served() -> Context:
    """A Fetch of an epoch after the leader's gets records."""
    return wrapped(checks, "leader_only", without_error(ErrorCode.UNKNOWN_LEADER_EPOCH))


@mutant("replica-fetch.last-epoch-above")
def last_epochs_are_not_checked() -> Context:
    """A replica whose last epoch is above its epoch is no invalid request."""

    def error(original: Any, self: Serving, request: Any, partition: Any) -> ErrorCode:
        epoch = partition.current_leader_epoch
        partition.last_fetched_epoch = min(partition.last_fetched_epoch, epoch)
        found: ErrorCode = original(self, request, partition)
        return found

    return wrapped(Serving, "_fetch_error", error)


@mutant("replica-fetch.wait-negative")
def waits_are_not_checked() -> Context:
    """A Fetch with a negative wait is no invalid request."""

    def error(original: Any, self: Serving, request: Any, partition: Any) -> ErrorCode:
        request.max_wait_ms = max(request.max_wait_ms, 0)
        found: ErrorCode = original(self, request, partition)
        return found

    return wrapped(Serving, "_fetch_error", error)


@mutant("replica-fetch.high-watermark")
def high_watermarks_are_one_too_high() -> Context:
    """The high watermark that a replica is told is one above that of the leader."""

    def answer(original: Any, *values: Any, high_watermark: int = -1, **named: Any) -> None:
        original(*values, high_watermark=high_watermark + 1, **named)

    return wrapped(responses, "fetch", answer)


@mutant("replica-fetch.diverging-beyond-end")
def logs_are_not_compared() -> Context:
    """The position of a replica is taken as it is, so that logs that diverge stay so."""
    return patched(ReplicatedLog, validate=lambda self, offset, epoch: VALID)


@mutant("replica-fetch.diverging-older-epoch")
def offsets_are_compared_alone() -> Context:
    """The last epoch of a replica is not compared, only its offset."""

    def validate(original: Any, self: ReplicatedLog, offset: int, epoch: int) -> Any:
        return original(self, offset, self.last_epoch)

    return wrapped(ReplicatedLog, "validate", validate)


@mutant("snapshots.unknown-snapshot")
def snapshots_are_not_looked_up() -> Context:
    """FetchSnapshot of a snapshot that is not there gets another error."""

    def error(original: Any, self: Serving, name: str, partition: Any, id: Any) -> ErrorCode:
        found: ErrorCode = original(self, name, partition, id)
        missing = found == ErrorCode.SNAPSHOT_NOT_FOUND
        return ErrorCode.POSITION_OUT_OF_RANGE if missing else found

    return wrapped(serving.Serving, "_snapshot_error", error)


# --- DescribeQuorum


@mutant("describe-quorum.observer")
def observers_are_not_described() -> Context:
    """DescribeQuorum has no observers."""
    return patched(describing, observers_of=lambda leader, now: [])


@mutant("describe-quorum.high-watermark")
def high_watermarks_are_described_too_high() -> Context:
    """DescribeQuorum has a high watermark one above the end of the leader."""

    def partition(original: Any, *values: Any) -> Any:
        found = original(*values)
        found.high_watermark = found.current_voters[0].log_end_offset + 1
        return found

    return wrapped(describing, "_partition", partition)


@mutant("describe-quorum.each-replica-once")
def voters_are_described_twice() -> Context:
    """A voter is among the observers, too."""

    def partition(original: Any, *values: Any) -> Any:
        found = original(*values)
        found.observers = [*found.observers, *found.current_voters]
        return found

    return wrapped(describing, "_partition", partition)
