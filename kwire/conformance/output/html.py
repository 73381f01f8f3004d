"""Writes a report as one HTML file that loads nothing: matrix of APIs and versions, a card for each
rule that the server does not keep, and the list of all rules.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any, Final

from kwire.conformance.outcome import Outcome, Report, Result, RoundTrip
from kwire.conformance.output.facts import ORDER, api_title, matrix, trees
from kwire.conformance.rule import Role
from kwire.reference.parse_trace import Node
from kwire.uuid import Uuid

#: Limits of one card, so that a file with many failures can be opened.
_CARDS_MAX: Final = 200
_INDEX_MAX: Final = 40
_ROUND_TRIPS_MAX: Final = 8
_ROWS_MAX: Final = 300
_HEX_BYTES: Final = 12
_SIGNS: Final = {
    Outcome.PASS: "✓",
    Outcome.FAIL: "✗",
    Outcome.DAMAGED: "✗",
    Outcome.TIMEOUT: "…",
    Outcome.ERROR: "!",
    Outcome.NO_LONGER_FAILS: "!",
    Outcome.BLOCKED: "⊘",
    Outcome.DEVIATION: "≠",
    Outcome.ADVICE: "△",
    Outcome.ALLOWED: "~",
    Outcome.NOT_OFFERED: "",
    Outcome.NOT_APPLICABLE: "",
    Outcome.NOT_TRIED: "·",
}


def report_html(report: Report) -> str:
    """Return the file's text."""
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    return "".join(
        (
            "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
            '<meta name=viewport content="width=device-width">',
            f"<title>kwire conform {escape(report.target)}</title>",
            f"<style>{style}</style></head><body>",
            *_head(report),
            *_index(report),
            *_matrix(report),
            *_cards(report),
            *_all(report),
            "</body></html>\n",
        )
    )


def _class(outcome: Outcome) -> str:
    return outcome.value.replace(" ", "-")


def _head(report: Report) -> Iterator[str]:
    roles = " and ".join(sorted(role.value for role in report.roles))
    yield f"<header><h1>{escape(report.target)}</h1><p>{f'{roles}, ' if roles else ''}"
    yield f"{len(report.results)} rules in {report.duration_s:.1f} s"
    yield f"{', interrupted' if report.interrupted else ''}</p><ul class=counts>"
    counts = report.counts()
    for outcome in ORDER:
        if counts[outcome]:
            yield f'<li class="{_class(outcome)}"><b>{counts[outcome]}</b> {outcome.value}</li>'
    yield "</ul>"
    for remark in filter(None, (report.blocked_text(), *report.remarks)):
        yield f"<p>{escape(remark)}</p>"
    yield "</header>"


def _index(report: Report) -> Iterator[str]:
    """The rules that are not kept, with links to their cards."""
    # A log may have many findings of one rule.
    times = Counter((result.outcome, result.rule.id) for result in report.to_show())
    shown = list(times)
    if not shown:
        return
    yield "<nav><ul class=index>"
    for outcome, rule_id in shown[:_INDEX_MAX]:
        count = times[outcome, rule_id]
        yield f'<li class="{_class(outcome)}"><span>{outcome.value}</span> '
        yield f'<a href="#{escape(rule_id)}">{escape(rule_id)}</a>'
        yield f"{f' ({count} times)' if count > 1 else ''}</li>"
    if len(shown) > _INDEX_MAX:
        yield f"<li>{len(shown) - _INDEX_MAX} more below</li>"
    yield "</ul></nav>"


def _matrix(report: Report) -> Iterator[str]:
    every = matrix(report)
    cells = {key: row for key, row in every.items() if any(map(_SIGNS.get, row.values()))}
    if not cells:
        return
    last = max((max(versions, default=0) for versions in cells.values()), default=0)
    sends = Role.CLIENT in report.roles
    yield f"<section><h2>APIs and versions{' that the program sends' if sends else ''}</h2>"
    yield "<div class=wide><table class=matrix><tr><th>API</th>"
    yield "".join(f"<th>{version}</th>" for version in range(last + 1))
    yield "</tr>"
    for key, versions in cells.items():
        yield f"<tr><th>{escape(api_title(key))}</th>"
        for version in range(last + 1):
            outcome = versions.get(version)
            if outcome is None or not _SIGNS[outcome]:
                yield "<td></td>"
                continue
            title = f"{api_title(key)} v{version}: {outcome.value}"
            yield f'<td class="{_class(outcome)}" title="{escape(title)}">{_SIGNS[outcome]}</td>'
        yield "</tr>"
    yield "</table></div><p class=legend>"
    shown = {outcome for row in cells.values() for outcome in row.values()}
    yield " ".join(
        f'<span class="{_class(outcome)}">{sign}</span> {outcome.value}'
        for outcome, sign in _SIGNS.items()
        if sign and outcome in shown
    )
    yield f"; empty: not {'sent' if sends else 'offered'}</p>"
    absent = [api_title(key) for key in every if key not in cells]
    if absent:
        yield f"<p class=absent>Not offered: {escape(', '.join(absent))}</p>"
    yield "</section>"


def _cards(report: Report) -> Iterator[str]:
    shown = report.to_show()
    yield "<section><h2>Rules that are not kept</h2>"
    if not shown:
        yield "<p>None.</p>"
    times: Counter[str] = Counter()
    for result in shown[:_CARDS_MAX]:
        times[result.rule.id] += 1
        yield from _card(report, result, times[result.rule.id])
    if len(shown) > _CARDS_MAX:
        yield f"<p>{len(shown) - _CARDS_MAX} more are in the list below.</p>"
    yield "</section>"


def _card(report: Report, result: Result, number: int) -> Iterator[str]:
    """The card of a result, which is the finding of this number of its rule."""
    rule = result.rule
    card_id = rule.id if number == 1 else f"{rule.id}-{number}"
    yield f'<article id="{escape(card_id)}" class="{_class(result.outcome)}">'
    yield f"<h3><span>{result.outcome.value}</span> {escape(rule.id)}</h3>"
    yield f"<p>{escape(rule.says)}</p><p class=found>{escape(result.sentence)}</p>"
    if blocks := report.causes()[rule.id]:
        yield f"<p>This blocks {blocks} other rule{'s' * (blocks > 1)}.</p>"
    yield f"<p class=source>{escape(rule.source)}"
    yield f"{', ' + escape(rule.section) if rule.section else ''}; {rule.level.value}; "
    yield f"since Kafka {escape(rule.since)}</p>"
    yield f"<pre>{escape(report.repeat(result))}</pre>"
    for name, text in result.output.items():
        yield f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
    for round_trip in result.round_trips[:_ROUND_TRIPS_MAX]:
        yield from _round_trip(round_trip)
    if len(result.round_trips) > _ROUND_TRIPS_MAX:
        yield f"<p>{len(result.round_trips) - _ROUND_TRIPS_MAX} more requests were sent.</p>"
    yield "</article>"


def _round_trip(round_trip: RoundTrip) -> Iterator[str]:
    for way, data, tree in trees(round_trip):
        title = f"{way}, {len(data)} bytes"
        if way == "sent" and round_trip.note:
            title += f": {round_trip.note}"
        yield f"<details><summary>{escape(title)}</summary><div class=wide><table class=tree>"
        if tree is None:
            yield f"<tr><td class=hex>{data.hex(' ')}</td></tr>"
        else:
            for number, (depth, node) in enumerate(tree.walk()):
                if number == _ROWS_MAX:
                    yield "<tr><td>...</td></tr>"
                    break
                yield _row(depth, node, data)
        yield "</table></div></details>"
    if round_trip.received is None:
        yield "<p class=nothing>nothing received</p>"


def _row(depth: int, node: Node, data: bytes) -> str:
    leaf = not node.children
    shown = data[node.start : min(node.end, node.start + _HEX_BYTES)].hex(" ") if leaf else ""
    more = ".." if leaf and node.end - node.start > _HEX_BYTES else ""
    value = "" if not leaf or node.error is not None else escape(_value(node.value))
    error = "" if node.error is None else f"<b class=broken>{escape(str(node.error))}</b>"
    return (
        f"<tr><td class=at>{node.start}-{node.end}</td><td class=hex>{shown}{more}</td>"
        f'<td style="padding-left:{depth + 1}em">'
        f"{escape(node.name)} <i>{escape(node.type)}</i></td>"
        f"<td>{value}{error}</td></tr>"
    )


def _value(value: Any) -> str:
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return json.dumps(value, ensure_ascii=False, default=str)[:200]


def _blocked(result: Result) -> str:
    by = escape(result.blocked_by)
    return f' (blocked by <a href="#{by}">{by}</a>)' if by else ""


def _all(report: Report) -> Iterator[str]:
    yield "<section><h2>All rules</h2>"
    for family in dict.fromkeys(result.rule.family for result in report.results):
        results = [result for result in report.results if result.rule.family == family]
        yield f"<details><summary>{escape(family)}: {len(results)} rules</summary><table class=all>"
        for result in results:
            yield (
                f'<tr class="{_class(result.outcome)}"><td>{result.outcome.value}</td>'
                f"<td>{escape(result.rule.id)}</td><td>{escape(result.rule.says)}</td>"
                f"<td>{escape(result.sentence)}{_blocked(result)}</td></tr>"
            )
        yield "</table></details>"
    yield "</section>"
