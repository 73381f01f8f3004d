"""Reads the page of a management port as a person does, in Chromium."""

from __future__ import annotations

import json
from typing import Any, Final

from kwire.cluster import Image
from tests.gateway.page.test_change_index import counted
from tests.interop.browser import Browser
from tests.waiting import until
from tools.gateway_process import Gateway

#: Figures of the page by their keys, as numbers where they are numbers.
_FIGURES: Final = """
Object.fromEntries([...document.querySelectorAll("[data-figure]")].map(one =>
  [one.dataset.figure, one.querySelector("b").textContent.replaceAll(",", "")]))
"""
#: Elements that are wider than the window and cannot be scrolled by themselves.
TOO_WIDE: Final = "document.documentElement.scrollWidth - innerWidth"


def url(server: Gateway, link: str = "") -> str:
    """The address of the page of a server."""
    return f"http://{server.ready['management']}/{link}"


def once(chromium: Browser, script: str) -> Any:
    """The value of an expression once it is true. Fails with what the page shows otherwise."""
    try:
        return until(lambda: chromium.evaluate(script), script)
    except AssertionError as error:
        error.add_note(chromium.evaluate("document.body.innerText")[:2000])
        raise


def health(chromium: Browser) -> str:
    return str(chromium.evaluate("document.getElementById('health').textContent"))


def wait_for_all(chromium: Browser) -> None:
    """Return when the page has every change of the log."""
    once(
        chromium,
        "now && now.changes && now.changes.offset >= now.log.end - 5"
        " && changes.last === now.changes.last && changes.count > 0",
    )


def figures(chromium: Browser) -> dict[str, str]:
    found: dict[str, str] = json.loads(chromium.evaluate(f"JSON.stringify({_FIGURES})"))
    return found


def expected_figures(image: Image) -> dict[str, str]:
    return {name: str(number) for name, number in counted(image).items()}


def shows(chromium: Browser, image: Image) -> bool:
    """Whether every figure of the page is that of a state."""
    expected = expected_figures(image)
    found = figures(chromium)
    return {name: found.get(name) for name in expected} == expected
