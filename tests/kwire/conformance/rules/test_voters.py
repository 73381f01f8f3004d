"""Rules of AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter."""

from __future__ import annotations

from tests.kwire.conformance.rules.agreeable import broken_by_it, rules_of

#: Rules that a leader which refuses nothing keeps all the same, or to which they do not apply.
_KEPT = {
    "add-not-leader",
}


def test_a_leader_that_refuses_nothing_breaks_all_other_rules() -> None:
    assert broken_by_it("voters") == rules_of("voters") - _KEPT
