"""Renders the page with the cards of servers."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kwire.conformance.catalog import server_rules
from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import Role
from kwire.protocol import ApiKey
from tools.conformance_reports.causes import Cause, server_causes

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs/conformance-servers.md"
_ABOUT: Final = (
    "This page has the results of `kwire conform --destructive` ([Conformance](conformance.md)) for"
    " Kafka's nodes, kwire's, and two servers that stand in for Kafka in tests of applications,"
    " each with its default settings. This command starts them, grades them and makes the page:"
)
_COUNTS: Final = (
    "There are {} rules. *Deviations* are rules that Kafka itself does not keep, in the same way;"
    " *advice* is a *should* that is not kept. Rules of APIs and versions that the server does not"
    " offer are *not offered*; rules of another role, of SASL or of an authorizer are *not"
    " applicable*."
)
_CAUSES: Final = (
    "Rules that one fault breaks are together. Each fault was repeated by hand; the last column"
    " says with which other program, and what it showed."
)
_COLUMNS: Final = (
    (Outcome.PASS,), (Outcome.DEVIATION,), (Outcome.ADVICE,),
    (Outcome.FAIL, Outcome.TIMEOUT, Outcome.ERROR, Outcome.BLOCKED), (Outcome.NOT_OFFERED,),
    (Outcome.NOT_APPLICABLE,),
)  # fmt: skip
_NOT_KEPT: Final = (
    Outcome.FAIL,
    Outcome.ADVICE,
    Outcome.ERROR,
    Outcome.TIMEOUT,
    Outcome.BLOCKED,
    Outcome.NOT_TRIED,
)
#: Rules of one fault that are named. Of more, families are counted.
_NAMED: Final = 8


@dataclass(frozen=True)
class Card:
    """The result for one server."""

    name: str
    title: str
    version: str
    report: Report


def cause_of(causes: Sequence[Cause], result: Result) -> Cause | None:
    """Return the first cause that explains the result."""
    return next((cause for cause in causes if cause.explains(result)), None)


def page(cards: Sequence[Card]) -> tuple[str, list[str]]:
    """Return the page and a line for each rule that is not kept and not explained."""
    lines = ["# Cards of servers", "", *_wrapped(_ABOUT), "", "```bash"]
    lines += ["python -m tools.conformance_reports servers", "```", ""]
    lines += ["| Server | Version | Rules kept | Deviations | Advice | Not kept | Not offered |"
              " Not applicable | Time |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    lines += [_row(card) for card in cards]
    lines += ["", *_wrapped(_COUNTS.format(len(server_rules()))), "", *_wrapped(_CAUSES)]
    all_causes, unexplained = server_causes(), []
    for card in cards:
        causes = all_causes.get(card.name, ())
        found = [result for result in card.report.results if result.outcome in _NOT_KEPT]
        lines += ["", f"## {card.title}", "", *_wrapped(_offers(card.report)), ""]
        if found:
            lines += _table(causes, found)
        else:
            lines.append("It keeps every rule.")
        unexplained += [
            f"{card.name}: {one.rule.id}: {one.outcome.value}: {one.sentence}"
            for one in found
            if cause_of(causes, one) is None
        ]
    return "\n".join(lines) + "\n", unexplained


def _row(card: Card) -> str:
    counts = card.report.counts()
    cells = [str(sum(counts[outcome] for outcome in column)) for column in _COLUMNS]
    seconds = f"{card.report.duration_s:.0f} s"
    return f"| {card.title} | {card.version} | {' | '.join([*cells, seconds])} |"


def _offers(report: Report) -> str:
    roles = " and ".join(role.value for role in Role if role in report.roles)
    offered = (
        f"{ApiKey(api).title} {low}-{high}" if low != high else f"{ApiKey(api).title} {low}"
        for api, (low, high) in sorted(report.offered.items())
        if api in list(ApiKey)
    )
    return f"Offers, as a {roles}: {', '.join(offered)}."


def _table(causes: Sequence[Cause], found: Sequence[Result]) -> list[str]:
    groups: dict[Cause | None, list[Result]] = {}
    for result in found:
        groups.setdefault(cause_of(causes, result), []).append(result)
    lines = ["| Rules | Outcome | What the server does | Repeated |", "|---|---|---|---|"]
    for cause, results in groups.items():
        outcomes = Counter(result.outcome.value for result in results)
        outcome = ", ".join(sorted(outcomes))
        says, repeated = (cause.does, cause.repeated) if cause else ("not explained", "")
        lines.append(f"| {_rules(results)} | {outcome} | {says} | {repeated} |")
    return lines


def _rules(results: Sequence[Result]) -> str:
    if len(results) <= _NAMED:
        return ", ".join(f"`{result.rule.id}`" for result in results)
    families = Counter(result.rule.family for result in results)
    counted = ", ".join(f"`{family}` {count}" for family, count in sorted(families.items()))
    return f"{len(results)} rules: {counted}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False)
