"""Lists which role of a node can follow which one, and when (Kafka's ``QuorumState``).

``Node`` asserts every change of role against this table. The table does not decide on a change: the
parts of the core do. ``python -m tools.check generated --fix`` draws it in docs/own-quorum.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)

_LATER_EPOCH: Final = "a later epoch"
_LATER_LEADER: Final = "a later epoch and its leader"

#: Role -> each role that can follow it, and the condition. An observer is never more than Follower.
#: Kafka's ``NomineeState`` is both Prospective and Candidate.
TRANSITIONS: Final[Mapping[type[Role], Mapping[type[Role], str]]] = MappingProxyType(
    {
        Unattached: {
            Unattached: "a later epoch, or a leader without a known address",
            Follower: "a leader with a known address",
            Prospective: "election timeout",
            Resigned: "start, as the leader of the last epoch",
        },
        Follower: {
            Follower: _LATER_LEADER,
            Unattached: f"{_LATER_EPOCH}, or a second leader of this epoch",
            Prospective: "fetch timeout",
            # Without Prospective in between: the leader that a pre-vote protects has resigned
            # (KAFKA-20895).
            Candidate: "EndQuorumEpoch names this node first",
        },
        Prospective: {
            Candidate: "pre-votes of a majority",
            Unattached: f"pre-vote lost, vote granted, or {_LATER_EPOCH}",
            Follower: "a leader with a known address",
        },
        Candidate: {
            Leader: "votes of a majority",
            # Kafka 4 does the same: another candidacy begins with a pre-vote (KIP-996).
            Prospective: "election lost or timed out",
            Unattached: f"{_LATER_EPOCH}, or this node may not be elected any more",
            Follower: "a leader with a known address",
        },
        Leader: {
            Resigned: "no fetches of a majority, shutdown, or removal from the voters",
            # It cannot lose the epoch that it leads to another node: an epoch has one leader (Raft
            # 5.2).
            Unattached: _LATER_EPOCH,
            Follower: _LATER_LEADER,
        },
        # Never Leader or Candidate: it does not lead an epoch twice (KAFKA-10527).
        Resigned: {
            Unattached: f"election timeout, or {_LATER_EPOCH}",
            Follower: _LATER_LEADER,
            Prospective: "start, as the only voter",
        },
    }
)


def can_follow(before: Role, after: Role) -> bool:
    """Whether the table has a transition between the roles of these two objects."""
    return type(after) in TRANSITIONS[type(before)]
