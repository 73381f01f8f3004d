"""Prints a report as text: a table of families, and a paragraph for each rule that the server does
not keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kwire.conformance.outcome import Outcome, Report, Result
from kwire.conformance.rule import CLIENT, Rule
from kwire.printable import printable

#: Columns that are there even if they are empty.
_ALWAYS: Final = (Outcome.PASS, Outcome.FAIL)
#: Blocked rules that the paragraph of their cause names.
_NAMED_MAX: Final = 3


def report_text(report: Report) -> str:
    """Return the report, with a line end behind it."""
    blocked = report.blocked_text()
    lines = [*([blocked, ""] if blocked else []), *_table(report), ""]
    for result in report.to_show():
        lines += [*_paragraph(report, result), ""]
    lines += report.remarks
    lines.append(_summary(report))
    return "\n".join(lines) + "\n"


def _table(report: Report) -> Iterator[str]:
    counts = report.counts()
    columns = [outcome for outcome in Outcome if counts[outcome] or outcome in _ALWAYS]
    families = list(dict.fromkeys(result.rule.family for result in report.results))
    width = max([len("family"), *map(len, families)])
    yield f"{'family':<{width}}" + "".join(f"  {outcome.value:>8}" for outcome in columns)
    for family in families:
        found = [result.outcome for result in report.results if result.rule.family == family]
        cells = (str(found.count(outcome) or "-") for outcome in columns)
        yield f"{family:<{width}}" + "".join(
            f"  {cell:>{max(8, len(outcome.value))}}"
            for cell, outcome in zip(cells, columns, strict=True)
        )


def _paragraph(report: Report, result: Result) -> Iterator[str]:
    rule = result.rule
    yield f"{result.outcome.value.upper()}  {rule.id}"
    yield f"  rule    {rule.says}"
    yield f"  {'client' if rule.roles == CLIENT else 'server'}  {printable(result.sentence)}"
    yield f"  source  {_source(rule)}"
    if blocked := [one.rule.id for one in report.results if one.blocked_by == rule.id]:
        more = f" and {len(blocked) - _NAMED_MAX} more" if len(blocked) > _NAMED_MAX else ""
        yield f"  blocks  {', '.join(blocked[:_NAMED_MAX])}{more}"
    if report.command:
        yield f"  again   {report.repeat(result)}"


def _summary(report: Report) -> str:
    counts = report.counts()
    said = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    roles = " and ".join(sorted(role.value for role in report.roles))
    about = f"{report.target}: {roles}" if roles else report.target
    ended = ", interrupted" if report.interrupted else ""
    return f"{about}: {said or 'no rule'}; {report.duration_s:.1f} s{ended}"


def _source(rule: Rule) -> str:
    return f"{rule.source}, {rule.section}" if rule.section else rule.source


def rule_list(rules: Sequence[Rule]) -> str:
    """Return a line for each rule: id, level, what it says."""
    width = max([0, *(len(rule.id) for rule in rules)])
    return "".join(f"{rule.id:<{width}}  {rule.level.value:<6}  {rule.says}\n" for rule in rules)


def rule_text(rule: Rule) -> str:
    """Return everything about one rule."""
    roles = " and ".join(sorted(role.value for role in rule.roles))
    apis = ", ".join(api.title for api in rule.apis) or "any"
    lines = [
        rule.id,
        "",
        rule.says,
        "",
        f"level    {rule.level.value}",
        f"source   {_source(rule)}",
        f"since    Kafka {rule.since}",
        f"role     {roles}",
        f"APIs     {apis}" + ("" if rule.version is None else f", version {rule.version}"),
        f"changes  {rule.changes.value}",
    ]
    if rule.needs:
        lines.append(f"needs    {', '.join(sorted(need.value for need in rule.needs))}")
    return "\n".join(lines) + "\n"
