"""Writes a report as one JSON object."""

from __future__ import annotations

from typing import Any

from kwire.conformance.outcome import Outcome, Report, Result, RoundTrip
from kwire.conformance.output.facts import api_title, matrix


def report_json(report: Report) -> dict[str, Any]:
    """Return the report as values that ``json`` can write. Bytes are in hex."""
    counts = report.counts()
    return {
        "target": report.target,
        "roles": sorted(role.value for role in report.roles),
        "durationS": round(report.duration_s, 3),
        "interrupted": report.interrupted,
        "counts": {outcome.value: counts[outcome] for outcome in Outcome if counts[outcome]},
        "offered": [
            {"api": api_title(key), "apiKey": key, "minVersion": low, "maxVersion": high}
            for key, (low, high) in sorted(report.offered.items())
        ],
        "matrix": [
            {
                "api": api_title(key),
                "apiKey": key,
                "versions": {str(version): cell.value for version, cell in sorted(cells.items())},
            }
            for key, cells in matrix(report).items()
        ],
        "blocked": report.blocked_text(),
        "remarks": report.remarks,
        "results": [_result(report, result) for result in report.results],
    }


def _result(report: Report, result: Result) -> dict[str, Any]:
    rule = result.rule
    line: dict[str, Any] = {
        "rule": rule.id,
        "outcome": result.outcome.value,
        "level": rule.level.value,
        "says": rule.says,
        "source": rule.source,
        "section": rule.section,
        "since": rule.since,
        "api": None if rule.api is None else rule.api.title,
        "version": rule.version,
        "durationS": round(result.duration_s, 4),
    }
    if result.sentence:
        line["sentence"] = result.sentence
    if result.blocked_by:
        line["blockedBy"] = result.blocked_by
    if result in report.to_show():
        line["repeat"] = report.repeat(result)
        line["roundTrips"] = [_round_trip(one) for one in result.round_trips]
        if result.output:
            line["program"] = dict(result.output)
    return line


def _round_trip(round_trip: RoundTrip) -> dict[str, Any]:
    return {
        "apiKey": round_trip.api_key,
        "version": round_trip.version,
        "note": round_trip.note,
        "sent": round_trip.sent.hex(),
        "received": None if round_trip.received is None else round_trip.received.hex(),
    }
