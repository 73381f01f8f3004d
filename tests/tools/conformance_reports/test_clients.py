"""The page of client cards: every entry has an explanation, and every explanation a rule."""

from __future__ import annotations

from kwire.conformance.catalog import client_rules, find_rule
from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import CLIENT
from tools.conformance_reports.causes import client_causes
from tools.conformance_reports.clients import PAGE, Client, page


def _report(client: str, rule_id: str) -> tuple[Client, list[Report]]:
    rule = find_rule(rule_id)
    assert rule is not None
    results = [Result(rule, Outcome.FAIL, "it ended")]
    return Client(client, "1.0", [], []), [Report("p", CLIENT, {3: (0, 12)}, results)]


def test_a_rule_without_an_explanation_is_named() -> None:
    text, unexplained = page({"new": _report("new", "client-records.gaps")})
    assert unexplained == ["new: client-records.gaps: fail"]
    assert "| new | 1.0 | 0 | 0 | 1 | 0 |" in text
    assert "Sends Metadata 12." in text


def test_a_rule_with_an_explanation_is_in_the_page() -> None:
    text, unexplained = page({"kcat": _report("kcat", "client-records.crc")})
    assert unexplained == []
    assert (
        f"| `client-records.crc` | fail | {client_causes()['kcat', 'client-records.crc']} |" in text
    )


def test_every_explanation_is_of_a_rule() -> None:
    ids = {rule.id for rule in client_rules()}
    assert {rule for _, rule in client_causes()} <= ids


def test_the_page_explains_everything() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "not explained" not in text
    assert f"There are {len(client_rules())} rules" in text
