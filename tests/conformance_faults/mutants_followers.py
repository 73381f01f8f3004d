"""Bugs of a node that does not lead its quorum."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from gateway.handlers.apis import controller_requests, envelope
from gateway.quorum import describing, responses
from gateway.quorum.serving import Serving
from gateway.quorum.voter_changes import VoterChanges
from kwire.protocol import ErrorCode
from tests.conformance_faults.mutants import mutant, wrapped
from tests.patches import patched

Context = AbstractContextManager[Any]


@mutant("replica-fetch.not-leader", at_follower=True)
def followers_have_no_epoch() -> Context:
    """A follower refuses a Fetch of the present epoch with UNKNOWN_LEADER_EPOCH."""

    def fetch_error(original: Any, self: Any, request: Any, partition: Any) -> ErrorCode:
        found: ErrorCode = original(self, request, partition)
        # The Fetch by which the rules find the leader names no cluster.
        wrong = found == ErrorCode.NOT_LEADER_OR_FOLLOWER and request.cluster_id is not None
        return ErrorCode.UNKNOWN_LEADER_EPOCH if wrong else found

    return wrapped(Serving, "_fetch_error", fetch_error)


@mutant("voters.add-not-leader", at_follower=True)
def followers_are_fenced() -> Context:
    """A follower refuses AddRaftVoter with FENCED_LEADER_EPOCH."""

    def refusal(original: Any, self: Any, cluster_id: str | None) -> tuple[ErrorCode, str]:
        found, text = original(self, cluster_id)
        wrong = found == ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.FENCED_LEADER_EPOCH if wrong else found, text

    return wrapped(VoterChanges, "_refusal", refusal)


@mutant("describe-quorum.not-leader", at_follower=True)
def followers_have_no_partition() -> Context:
    """A follower refuses DescribeQuorum with UNKNOWN_TOPIC_OR_PARTITION."""

    def refusal(original: Any, named: Any, error: ErrorCode, version: int) -> Any:
        return original(named, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version)

    return wrapped(describing, "_refusal", refusal)


@mutant("quorum-epochs.end-at-follower", at_follower=True)
def followers_refuse_the_end() -> Context:
    """A follower that follows an EndQuorumEpoch answers it with INVALID_REQUEST."""

    def answer(original: Any, node: Any, asked: Any, error: ErrorCode) -> None:
        original(node, asked, ErrorCode.INVALID_REQUEST)

    return wrapped(responses, "end_quorum_epoch", answer)


def _not_controller(new: ErrorCode) -> Context:
    def refusal(original: Any, version: int, error: int, *more: Any) -> Any:
        return original(version, new if error == ErrorCode.NOT_CONTROLLER else error, *more)

    return wrapped(controller_requests, "Refusal", refusal)


@mutant("registration.not-controller", at_follower=True)
def standby_controllers_are_not_available() -> Context:
    """A controller that is not active refuses a registration with BROKER_NOT_AVAILABLE."""
    return _not_controller(ErrorCode.BROKER_NOT_AVAILABLE)


@mutant("alter-partition.not-controller", at_follower=True)
def standby_controllers_are_stale() -> Context:
    """A controller that is not active refuses AlterPartition with STALE_CONTROLLER_EPOCH."""
    return _not_controller(ErrorCode.STALE_CONTROLLER_EPOCH)


@mutant("forwarding.not-controller", at_follower=True)
def errors_stay_in_envelopes() -> Context:
    """NOT_CONTROLLER of a request in an envelope is not the error of the envelope."""
    return patched(envelope, errors_of=lambda answer: frozenset())
