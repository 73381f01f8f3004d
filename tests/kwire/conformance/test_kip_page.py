"""The page of the KRaft proposals names every rule of these texts, and no other; and tests that
exist.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from kwire.conformance.catalog import all_rules

_TESTS = Path(__file__).parents[2]
_PAGE = _TESTS.parent / "docs" / "conformance-kips.md"
_TEXTS = {
    "KIP-482", "KIP-497", "KIP-511", "KIP-590", "KIP-595", "KIP-630", "KIP-631", "KIP-836",
    "KIP-853", "KIP-996",
}  # fmt: skip


def _rows() -> list[list[str]]:
    lines = [line for line in _PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def _named() -> list[str]:
    return [
        name for row in _rows() for name in re.findall(r"`([a-z-]+\.[A-Za-z0-9.*-]+)`", row[-1])
    ]


def test_every_rule_that_the_page_names_exists() -> None:
    ids = [rule.id for rule in all_rules()]
    assert [name for name in _named() if not fnmatch.filter(ids, name)] == []


def test_every_rule_of_these_texts_is_on_the_page() -> None:
    named = _named()
    missing = [
        rule.id
        for rule in all_rules()
        if rule.source in _TEXTS and not any(fnmatch.fnmatchcase(rule.id, one) for one in named)
    ]
    assert missing == []


def test_every_demand_has_a_rule_or_a_reason() -> None:
    rows = [row for row in _rows() if row[0] != "Section"]
    assert len(rows) > 90
    assert [row for row in rows if len(row) != 3 or not all(row)] == []


def test_every_test_that_the_page_names_exists() -> None:
    named = [one for row in _rows() for one in re.findall(r"`([^`]+\.py)::(\w+)`", row[-1])]
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if f"def {name}(" not in (_TESTS / path).read_text()
    ]
    assert missing == []


@pytest.mark.parametrize("text", ["KIP-497", "KIP-590", "KIP-595", "KIP-631"])
def test_page_has_the_demands_of_the_text_on_brokers(text: str) -> None:
    _, _, behind = _PAGE.read_text().partition(f"### {text}: the broker\n")
    rows = [line for line in behind.partition("\n### ")[0].splitlines() if line.startswith("| ")]
    assert len(rows) > 10
