"""The description of the package has no link that is dead where packages are shown."""

from __future__ import annotations

import re

from tests.documented import ROOT
from tools.check.description import PAGE, SOURCE, written


def test_link_to_a_page_becomes_its_command_and_other_relative_links_their_text() -> None:
    text = written("[views](docs/views.md#x), [all](docs/index.md), [how](CONTRIBUTING.md)\n")
    assert text.endswith(
        "views (`kwire docs views`), all (`kwire docs`), how\n",
    )


def test_absolute_link_stays() -> None:
    assert written("[a](https://example.com/b)").endswith("[a](https://example.com/b)")


def test_picture_goes_with_the_paragraph_that_announces_it() -> None:
    assert written("one\n\nIt looks so:\n\n![a](docs/a.png)\n\ntwo\n").endswith(
        "-->\n\none\n\ntwo\n"
    )


def test_mermaid_is_left_out_and_other_code_stays() -> None:
    text = written("```mermaid\na --> b\n```\n\n```bash\nkwire serve\n```\n")
    assert "-->" not in text.replace("fix -->", "") and "kwire serve" in text


def test_description_of_the_package_has_no_relative_link_and_keeps_every_heading() -> None:
    readme, text = (ROOT / SOURCE).read_text(), (ROOT / PAGE).read_text()
    assert not re.search(r"\]\((?!https?:)", text)
    headings = re.findall(r"^#+ .*$", readme, re.MULTILINE)
    assert headings and re.findall(r"^#+ .*$", text, re.MULTILINE) == headings
