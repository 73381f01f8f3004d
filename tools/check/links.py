"""Finds broken links of Markdown pages to files and headings of the tree. It makes no requests, so
links that leave the tree are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

_FENCE = re.compile(r"^\s*(```|~~~)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def broken_links(page: Path) -> Iterator[str]:
    """Each link of ``page`` that leads to no file, or to no heading of a Markdown file, with what
    is wrong.
    """
    for target in _targets(page):
        if _ELSEWHERE.match(target):
            continue
        name, _, anchor = unquote(target).partition("#")
        path = (page.parent / name) if name else page
        if not path.exists():
            yield f"({target}) leads to no file"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield f"({target}): {path.name} has no such heading"


def anchors(page: Path) -> set[str]:
    """The names by which the headings of a page can be linked, as GitHub makes them."""
    found: dict[str, int] = {}
    names = set()
    for line in _prose(page):
        if heading := _HEADING.match(line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            seen = found.get(slug, 0)
            found[slug] = seen + 1
            names.add(f"{slug}-{seen}" if seen else slug)
    return names


def _targets(page: Path) -> Iterator[str]:
    for line in _prose(page):
        for link in _LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            yield link[1] or link[2]


def _prose(page: Path) -> Iterator[str]:
    """The lines of a page outside of fenced code."""
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line
