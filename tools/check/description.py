"""Writes the description that package indexes show, ``docs/description.md``, from README.md.

Indexes resolve no relative links, show no files of the tree and draw no Mermaid. A link to a page
becomes the command that shows the page, pictures are left out. It changes no sentence.
"""

from __future__ import annotations

import re
from typing import Final

SOURCE: Final = "README.md"
PAGE: Final = "docs/description.md"
_HEAD: Final = "<!-- Written from README.md by: python -m tools.check generated --fix -->\n\n"
_DRAWN: Final = re.compile(r"^```mermaid\n.*?^```\n\n?", re.MULTILINE | re.DOTALL)
_PICTURE: Final = re.compile(
    r"^[^\n]*:\n\n!\[[^\]]*\]\([^)]+\)\n\n|!\[[^\]]*\]\([^)]+\)", re.MULTILINE
)
#: Relative links: those with a scheme are left alone.
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(?:#[^)\s]*)?\)")


def written(readme: str) -> str:
    """The description for the text of README.md."""
    return _HEAD + _LINK.sub(_as_command, _PICTURE.sub("", _DRAWN.sub("", readme)))


def _as_command(link: re.Match[str]) -> str:
    text, target = link[1], link[2]
    if not target.startswith("docs/"):
        return text
    name = target.removeprefix("docs/").removesuffix(".md")
    return f"{text} (`kwire docs {name}`)" if name != "index" else f"{text} (`kwire docs`)"
