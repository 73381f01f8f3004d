"""Configuration of Sphinx for the site. Sphinx imports it by path."""

import re

from sphinx.application import Sphinx

from tools.site.pictures import BLOCK, ROOT, picture

project = "kwire"
author = "the kwire authors"
extensions = ["myst_parser", "sphinx_copybutton"]
#: The source is the top of the tree, so that the README and the pages can link to each other.
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "docs/decisions/*.md",
]
exclude_patterns = ["docs/description.md"]
root_doc = "docs/index"

# Headings are link targets under the names that GitHub gives them.
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "furo"
html_title = "kwire"
html_extra_path = ["static"]
#: Pictures are drawn for white paper.
html_static_path = ["style"]
html_css_files = ["pictures.css"]
html_show_sourcelink = False
html_copy_source = False

_SECTION = re.compile(r"^## (.+)$")
_ENTRY = re.compile(r"^\* \[([^\]]+)\]\(([^)#]+)\.md\)(?=:|$)")


def _add_contents(app: Sphinx, name: str, source: list[str]) -> None:
    """Append hidden tables of contents to pages that list others.

    Sphinx builds its navigation from ``toctree`` directives, which GitHub would show as code. They
    are derived from the lists of links of the two index pages.
    """
    if name not in ("docs/index", "docs/decisions/README"):
        return
    caption, entries, tables = "", list[str](), list[str]()
    for line in [*source[0].splitlines(), "## "]:
        if entry := _ENTRY.match(line):
            entries.append(f"{entry[1]} <{entry[2]}>")
        elif _SECTION.match(line) or line == "## ":
            if entries:
                head = ["```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else [])]
                tables.append("\n".join([*head, "", *entries, "```"]))
            caption, entries = line[3:], []
    project_pages = ["README </README>", "Contributing </CONTRIBUTING>", "Changelog </CHANGELOG>"]
    if name == "docs/index":
        head = ["```{toctree}", ":hidden:", ":caption: Project", ""]
        tables.append("\n".join([*head, *project_pages, "```"]))
    source[0] += "\n\n" + "\n\n".join(tables) + "\n"


def _show_pictures(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the picture of a Mermaid block in its place. A block without one is an error of the
    build: ``python -m tools.site.pictures`` draws it.
    """

    def shown(block: re.Match[str]) -> str:
        path = "/" + picture(block["text"]).relative_to(ROOT).as_posix()
        return "\n".join([f"```{{image}} {path}", ":class: drawn", "```"])

    source[0] = BLOCK.sub(shown, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_contents)
    app.connect("source-read", _show_pictures)
