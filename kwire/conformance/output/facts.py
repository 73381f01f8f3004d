"""Names what several forms of the report show: API titles, cells of the matrix, frames as trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.conformance.outcome import Outcome, Report, RoundTrip
from kwire.protocol import ApiKey
from kwire.reference.frames import dissect_request, dissect_response
from kwire.reference.parse_trace import Node

#: From the outcome that matters most to the one that matters least.
ORDER: Final = (
    Outcome.DAMAGED,
    Outcome.FAIL,
    Outcome.TIMEOUT,
    Outcome.ERROR,
    Outcome.NO_LONGER_FAILS,
    Outcome.ALLOWED,
    Outcome.ADVICE,
    Outcome.DEVIATION,
    Outcome.BLOCKED,
    Outcome.PASS,
    Outcome.NOT_TRIED,
    Outcome.NOT_OFFERED,
    Outcome.NOT_APPLICABLE,
)


def api_title(api_key: int) -> str:
    """Return the name of an API, or its number if Kafka has none of that number."""
    return ApiKey(api_key).title if api_key in list(ApiKey) else f"API {api_key}"


def matrix(report: Report) -> dict[int, dict[int, Outcome]]:
    """Return the outcome of each version of each API: the one that matters most among the rules of
    that version, NOT_TRIED for an offered version without a rule in the report.
    """
    cells: dict[int, dict[int, Outcome]] = {
        key: dict.fromkeys(range(max(low, 0), min(high, 99) + 1), Outcome.NOT_TRIED)
        for key, (low, high) in report.offered.items()
    }
    for result in report.results:
        rule = result.rule
        if rule.api is None or rule.version is None:
            continue
        versions = cells.setdefault(int(rule.api), {})
        before = versions.get(rule.version, Outcome.NOT_APPLICABLE)
        versions[rule.version] = min(before, result.outcome, key=_rank)
    return dict(sorted(cells.items()))


def _rank(outcome: Outcome) -> int:
    # A version that is offered counts as not tried only while no rule tried it.
    return ORDER.index(outcome)


def trees(round_trip: RoundTrip) -> Iterator[tuple[str, bytes, Node | None]]:
    """Return (sent or received, frame, its tree) of a round trip; the tree is None for bytes that
    are no frame of Kafka.
    """
    is_request = round_trip.api_key >= 0
    yield "sent", round_trip.sent, dissect_request(round_trip.sent) if is_request else None
    if round_trip.received is not None:
        tree = (
            dissect_response(round_trip.received, round_trip.api_key, round_trip.version)
            if is_request
            else None
        )
        yield "received", round_trip.received, tree
