"""The page of faults is that of the lists which the tests run, and no rule is without a fault."""

from __future__ import annotations

from tests.conformance_faults.page import PAGE, every_family, page, untried


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m tests.conformance_faults.page writes it anew"
    )


def test_every_rule_has_a_fault() -> None:
    assert [rule for family in every_family() for rule in untried(family)] == []
