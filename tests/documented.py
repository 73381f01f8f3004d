"""Code blocks of the pages, and the commands in them.

A command is a list of words: continued lines are joined, comments and what follows a pipe are cut.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL: Final = ("bash", "sh")


class Block(NamedTuple):
    """A fenced block. ``page`` is its path from the top of the tree, ``line`` counts from 1."""

    page: str
    line: int
    language: str
    text: str


def blocks() -> list[Block]:
    """Every fenced block of the README, CONTRIBUTING.md and docs, in the order of the pages."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = []
    for page in pages:
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(name, line, match[1], match[2]))
    return found


#: A variable of the environment before a command.
_VARIABLE: Final = re.compile(r"[A-Z_]+=")


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of a block in shell language; none of other blocks."""
    if block.language not in _SHELL:
        return
    for line in block.text.replace("\\\n", " ").splitlines():
        if words := _words(line):
            yield words


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|;&<>"):
            break
        if words or not _VARIABLE.match(word):
            words.append(word)
    if words and Path(words[0]).name in ("kwire", "python"):
        words[0] = Path(words[0]).name
    return words
