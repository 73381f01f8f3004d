"""Writes the round trips of a result as text: each frame as an annotated tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kwire.conformance.outcome import Result
from kwire.conformance.output.facts import trees
from kwire.reference.tree_text import TreeText

#: Limits of one result, so that a failure can be read.
_ROUND_TRIPS_MAX: Final = 4
_LINES_MAX: Final = 100


def round_trips_text(result: Result) -> Iterator[str]:
    """Return the lines of the first round trips of a result."""
    for round_trip in result.round_trips[:_ROUND_TRIPS_MAX]:
        for way, data, tree in trees(round_trip):
            note = f": {round_trip.note}" if way == "sent" and round_trip.note else ""
            yield f"{way}, {len(data)} bytes{note}"
            if tree is None:
                yield f"  {data[:64].hex(' ')}{' ..' if len(data) > 64 else ''}"
                continue
            for number, line in enumerate(TreeText().lines(tree, data)):
                if number == _LINES_MAX:
                    yield "  ..."
                    break
                yield f"  {line}".rstrip()
        if round_trip.received is None:
            yield "received nothing"
    if len(result.round_trips) > _ROUND_TRIPS_MAX:
        yield f"{len(result.round_trips) - _ROUND_TRIPS_MAX} more requests were sent"
