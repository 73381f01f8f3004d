"""State diagrams in the documents: the arrows drawn are those of the tables in the code."""

from __future__ import annotations

import re

import pytest

from gateway.quorum.role_table import TRANSITIONS as ROLE_TRANSITIONS
from gateway.server.clients.connection_state import TRANSITIONS as CONNECTION_TRANSITIONS
from tools.check.state_diagrams import PAGES, UnknownDiagramError, written
from tools.check.steps import ROOT

ARROW = re.compile(r"^    (\w+) --> (\w+): (.+)$", re.MULTILINE)


def arrows(name: str, diagram: str) -> list[tuple[str, ...]]:
    """The arrows between states that a page shows in one of its diagrams."""
    page = (ROOT / name).read_text(encoding="utf-8")
    _, _, rest = page.partition(f"<!-- state diagram: {diagram} -->")
    return ARROW.findall(rest.partition("<!-- end -->")[0])


@pytest.mark.parametrize("name", PAGES)
def test_committed_pages_are_as_they_would_be_written(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert written(name, page) == page


def test_diagram_of_roles_has_exactly_the_transitions_of_the_table() -> None:
    assert arrows("docs/own-quorum.md", "roles of a quorum's node") == [
        (before.__name__, after.__name__, condition)
        for before, following in ROLE_TRANSITIONS.items()
        for after, condition in following.items()
    ]


def test_diagram_of_a_connection_has_exactly_the_transitions_of_the_table() -> None:
    drawn = {
        (before, event, after)
        for before, after, events in arrows("docs/architecture.md", "a client's connection")
        for event in events.split(", ")
    }
    assert drawn == {
        (before.name, event.name, after.name)
        for before, row in CONNECTION_TRANSITIONS.items()
        for event, after in row.items()
    }


def test_page_without_its_diagram_is_refused() -> None:
    with pytest.raises(UnknownDiagramError, match="roles"):
        written("docs/own-quorum.md", "# A page\n")


def test_page_with_a_diagram_of_no_table_is_refused() -> None:
    page = "<!-- state diagram: weather -->\n<!-- end -->\n"
    with pytest.raises(UnknownDiagramError, match="weather"):
        written("docs/index.md", page)
