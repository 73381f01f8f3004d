"""Rules of the records in the metadata log."""

from __future__ import annotations

from tests.kwire.conformance.rules.agreeable import broken_by_it, rules_of

#: Rules that a leader which refuses nothing keeps all the same, or to which they do not apply.
_KEPT: set[str] = set()


def test_a_leader_that_refuses_nothing_breaks_all_other_rules() -> None:
    assert broken_by_it("metadata-records") == rules_of("metadata-records") - _KEPT
