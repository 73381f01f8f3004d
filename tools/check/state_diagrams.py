"""Draws the transition tables of the code as Mermaid diagrams in the documentation.

A diagram stands between ``<!-- state diagram: NAME -->`` and ``<!-- end -->``. The text around the
diagrams is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gateway.quorum.role_table import TRANSITIONS as ROLE_TRANSITIONS
from gateway.quorum.roles import Unattached
from gateway.server.clients.connection_state import TRANSITIONS as CONNECTION_TRANSITIONS
from gateway.server.clients.connection_state import State

_DIAGRAM: Final = re.compile(r"<!-- state diagram: (?P<name>.+?) -->\n.*?<!-- end -->", re.DOTALL)


class Arrow(NamedTuple):
    """One transition: names of two states, and its condition or event."""

    before: str
    after: str
    label: str


class Diagram(NamedTuple):
    """A diagram: the page that shows it, its first state, and its arrows in order."""

    page: str
    first: str
    arrows: tuple[Arrow, ...]


class UnknownDiagramError(ValueError):
    """A page does not have exactly its diagrams of ``DIAGRAMS``; the text names them."""


def _roles() -> Iterator[Arrow]:
    for before, following in ROLE_TRANSITIONS.items():
        for after, condition in following.items():
            yield Arrow(before.__name__, after.__name__, condition)


def _connection() -> Iterator[Arrow]:
    for before, row in CONNECTION_TRANSITIONS.items():
        # One arrow for all events that lead from one state to the same other one.
        for after in dict.fromkeys(row.values()):
            events = (event.name for event, found in row.items() if found is after)
            yield Arrow(before.name, after.name, ", ".join(events))


#: Every diagram by the name in its markers.
DIAGRAMS: Final = {
    "roles of a quorum's node": Diagram("docs/own-quorum.md", Unattached.__name__, tuple(_roles())),
    "a client's connection": Diagram(
        "docs/architecture.md", State.HANDSHAKE.name, tuple(_connection())
    ),
}
#: The pages that show diagrams.
PAGES: Final = tuple(sorted({diagram.page for diagram in DIAGRAMS.values()}))


def drawing(diagram: Diagram) -> str:
    """The fenced Mermaid block of a diagram, without a newline at its end."""
    rows = (f"    {one.before} --> {one.after}: {one.label}" for one in diagram.arrows)
    head = ["```mermaid", "stateDiagram-v2", f"    [*] --> {diagram.first}"]
    return "\n".join([*head, *rows, "```"])


def written(name: str, page: str) -> str:
    """The text ``page`` of the page ``name`` with its diagrams as the tables are.

    Raises UnknownDiagramError.
    """
    found = [one["name"] for one in _DIAGRAM.finditer(page)]
    wanted = [key for key, diagram in DIAGRAMS.items() if diagram.page == name]
    if sorted(found) != sorted(wanted):
        raise UnknownDiagramError(f"diagrams {found}, the code has {wanted}")

    def filled(one: re.Match[str]) -> str:
        key = one["name"]
        return f"<!-- state diagram: {key} -->\n\n{drawing(DIAGRAMS[key])}\n\n<!-- end -->"

    return _DIAGRAM.sub(filled, page)
