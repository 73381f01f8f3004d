"""The page of cards of servers: rules of one cause are together, and everything is explained."""

from __future__ import annotations

import fnmatch

import pytest

from kwire.conformance.catalog import find_rule, server_rules
from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import BROKER
from tools.conformance_reports.causes import server_causes
from tools.conformance_reports.server_page import PAGE, Card, page


def _card(name: str, *found: tuple[str, Outcome, str]) -> Card:
    results = []
    for rule_id, outcome, sentence in found:
        rule = find_rule(rule_id)
        assert rule is not None
        results.append(Result(rule, outcome, sentence))
    report = Report("a:1", BROKER, {3: (0, 12), 18: (3, 3)}, results, duration_s=1.6)
    return Card(name, f"Server {name}", "1.0", report)


def test_a_rule_without_a_cause_is_named() -> None:
    text, unexplained = page([_card("new", ("framing.size-zero", Outcome.FAIL, "it stays open"))])
    assert unexplained == ["new: framing.size-zero: fail: it stays open"]
    assert "| Server new | 1.0 | 0 | 0 | 0 | 1 | 0 | 0 | 2 s |" in text
    assert "Offers, as a broker: Metadata 0-12, ApiVersions 3." in text
    assert "| `framing.size-zero` | fail | not explained |  |" in text


def test_rules_of_one_cause_are_one_row() -> None:
    said = "the connection stayed open for 5 s"
    card = _card(
        "kfake",
        ("framing.size-negative", Outcome.FAIL, said),
        ("framing.http-request", Outcome.TIMEOUT, said),
        ("framing.api-key-unknown", Outcome.FAIL, "the server ended: panic"),
    )
    text, unexplained = page([card])
    assert unexplained == []
    assert "| `framing.size-negative`, `framing.http-request` | fail, timeout |" in text
    assert "| `framing.api-key-unknown` | fail |" in text


def test_many_rules_of_one_cause_are_counted() -> None:
    found = [
        (f"schema.Metadata.v{version}.{way}", Outcome.FAIL, "1 byte left over")
        for version in (9, 10, 11, 12, 13)
        for way in ("answered", "unknown-tags")
    ]
    text, unexplained = page([_card("mock", *found)])
    assert unexplained == []
    assert "| 10 rules: `schema` 10 | fail |" in text


def test_a_sentence_of_another_fault_is_not_explained() -> None:
    _, unexplained = page(
        [_card("kfake", ("framing.size-negative", Outcome.FAIL, "it answers with an error"))]
    )
    assert len(unexplained) == 1


def test_a_server_without_faults_keeps_every_rule() -> None:
    text, unexplained = page([_card("kfake", ("framing.size-zero", Outcome.PASS, ""))])
    assert unexplained == []
    assert "It keeps every rule." in text


@pytest.mark.parametrize("name", server_causes())
def test_every_pattern_of_a_cause_is_of_a_rule(name: str) -> None:
    ids = [rule.id for rule in server_rules()]
    patterns = [one for cause in server_causes()[name] for one in cause.rules]
    assert [one for one in patterns if not fnmatch.filter(ids, one)] == []


def test_the_page_explains_everything() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "not explained" not in text
    assert f"There are {len(server_rules())} rules" in text
