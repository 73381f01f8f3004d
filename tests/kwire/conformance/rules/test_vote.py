"""Rules of Vote and pre-vote."""

from __future__ import annotations

from tests.kwire.conformance.rules.agreeable import broken_by_it, rules_of

#: Rules that a leader which refuses nothing keeps all the same, or to which they do not apply.
_KEPT = {
    "leader-of-the-epoch",
    "names-leader",
    "pre-vote-refused",
    "pre-vote-log-of-the-epoch",
    "pre-vote-keeps-epoch",
}


def test_a_leader_that_refuses_nothing_breaks_all_other_rules() -> None:
    assert broken_by_it("vote") == rules_of("vote") - _KEPT
