"""Rules of DescribeQuorum."""

from __future__ import annotations

from tests.kwire.conformance.rules.agreeable import broken_by_it, rules_of

#: Rules that a leader which refuses nothing keeps all the same, or to which they do not apply.
_KEPT = {
    "names-leader",
    "each-replica-once",
    "high-watermark",
    "followers-behind-leader",
    "timestamps-in-order",
    "versions-agree",
    "not-leader",
    "epoch-of-fetch",
}


def test_a_leader_that_refuses_nothing_breaks_all_other_rules() -> None:
    assert broken_by_it("describe-quorum") == rules_of("describe-quorum") - _KEPT
