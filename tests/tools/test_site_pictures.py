"""The site draws nothing in the browser: each Mermaid block has its picture."""

from __future__ import annotations

from tools.site.pictures import FOLDER, mermaid_blocks, picture


def test_every_mermaid_block_has_its_picture_and_no_picture_is_left_over() -> None:
    wanted = {picture(text) for text in mermaid_blocks()}
    assert wanted and wanted == set(FOLDER.iterdir()), "run python -m tools.site.pictures"


def test_picture_of_another_text_is_another_file() -> None:
    assert picture("a --> b\n") != picture("a --> c\n")
