"""Rules that all requests of a metadata quorum have in common."""

from __future__ import annotations

from tests.kwire.conformance.rules.agreeable import broken_by_it, rules_of

#: Rules that a leader which refuses nothing keeps all the same, or to which they do not apply.
_KEPT = {
    "Vote.names-leader",
    "BeginQuorumEpoch.names-leader",
    "EndQuorumEpoch.names-leader",
    "Fetch.names-leader",
}


def test_a_leader_that_refuses_nothing_breaks_all_other_rules() -> None:
    assert broken_by_it("raft") == rules_of("raft") - _KEPT
