"""The HTML report in Chromium: a person sees what the JSON report has, and the page loads
nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.browser import Browser
from tests.interop.conform_report import RULES, write_report

#: Outcomes without a sign in the matrix.
_EMPTY = ("not offered", "not applicable")
#: Everything that a reader sees of the report, by the elements' own text.
_SHOWN = """
(() => {
  const texts = (from, what) => [...from.querySelectorAll(what)].map(one => one.textContent.trim());
  return {
    title: document.title,
    head: texts(document, "h1")[0],
    counts: texts(document, ".counts li"),
    cells: [...document.querySelectorAll(".matrix td[title]")].map(cell => ({
      title: cell.title, sign: cell.textContent, kind: cell.className,
      row: cell.parentElement.cells[0].textContent,
      column: document.querySelector(".matrix tr").cells[cell.cellIndex].textContent,
    })),
    absent: texts(document, ".absent").join(),
    index: [...document.querySelectorAll(".index li")].map(one => ({
      text: one.textContent,
      leads: document.getElementById(one.querySelector("a").hash.slice(1)) !== null,
    })),
    cards: [...document.querySelectorAll("article")].map(card => ({
      id: card.id, head: texts(card, "h3")[0], texts: texts(card, "p"),
      command: texts(card, "pre")[0], frames: texts(card, "summary"),
      seen: card.querySelector("pre").checkVisibility(),
    })),
    rules: [...document.querySelectorAll(".all tr")].map(row => texts(row, "td")),
  };
})()
"""
#: Elements that are wider than the window and cannot be scrolled by themselves.
_TOO_WIDE = "document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with report.html and report.json of one run against a server with faults."""
    where = tmp_path_factory.mktemp("report")
    write_report(where, RULES)
    return where


def test_a_reader_sees_what_the_json_has(report: Path, chromium: Browser) -> None:
    chromium.open((report / "report.html").as_uri())
    shown, value = chromium.evaluate(_SHOWN), json.loads((report / "report.json").read_text())
    assert value["target"] in shown["title"] and shown["head"] == value["target"]
    counts = {name: int(count) for count, name in (one.split(" ", 1) for one in shown["counts"])}
    assert counts == value["counts"]
    assert _cells(shown) == {
        f"{row['api']} v{version}": outcome
        for row in value["matrix"]
        for version, outcome in row["versions"].items()
        if outcome not in _EMPTY
    }
    absent = ", ".join(row["api"] for row in value["matrix"] if not _has_cells(row))
    assert shown["absent"] == (f"Not offered: {absent}" if absent else "")
    failed = [line for line in value["results"] if "repeat" in line]
    assert len(failed) >= 4
    assert [card["id"] for card in shown["cards"]] == [line["rule"] for line in failed]
    assert shown["index"] == [
        {"text": f"{line['outcome']} {line['rule']}", "leads": True} for line in failed
    ]
    for card, line in zip(shown["cards"], failed, strict=True):
        assert card["head"] == f"{line['outcome']} {line['rule']}"
        assert card["texts"][:2] == [line["says"], line["sentence"]]
        assert card["command"] == line["repeat"] and card["seen"]
        frames = sum(1 + (trip["received"] is not None) for trip in line["roundTrips"][:8])
        assert len(card["frames"]) == frames
    assert shown["rules"] == [
        [line["outcome"], line["rule"], line["says"], line.get("sentence", "")]
        for line in value["results"]
    ]


def _has_cells(row: Any) -> bool:
    return any(outcome not in _EMPTY for outcome in row["versions"].values())


def _cells(shown: Any) -> dict[str, str]:
    """The matrix by its rows and columns, in which a person looks a cell up."""
    cells = {}
    for cell in shown["cells"]:
        name, _, outcome = cell["title"].partition(": ")
        assert name == f"{cell['row']} v{cell['column']}"
        assert cell["kind"] == outcome.replace(" ", "-") and cell["sign"]
        cells[name] = outcome
    return cells


def test_the_page_loads_nothing_and_has_no_errors(report: Path, chromium: Browser) -> None:
    chromium.loaded.clear()
    page = (report / "report.html").as_uri()
    chromium.open(page)
    assert chromium.loaded == [page]
    assert chromium.errors == []


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_fits_its_window(report: Path, chromium: Browser, width: int, dark: bool) -> None:
    """Wide tables and commands are scrolled in their own boxes; all text has a visible colour."""
    chromium.open((report / "report.html").as_uri(), width=width, dark=dark)
    chromium.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert chromium.evaluate(_TOO_WIDE) <= 0


def test_the_browser_notes_errors_and_loads(chromium: Browser) -> None:
    """The tests above could not fail otherwise."""
    chromium.errors.clear()
    chromium.loaded.clear()
    script = "console.error('said'); throw new Error('thrown')"
    page = f"data:text/html,<img src='file:///no-such-file'><script>{script}</script>"
    chromium.open(page)
    assert "file:///no-such-file" in chromium.loaded
    assert ["said" in one or "thrown" in one for one in chromium.errors].count(True) == 2
