"""Links between documents: what counts as broken."""

from __future__ import annotations

from pathlib import Path

from tools.check.links import anchors, broken_links


def page(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_files_and_headings_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text(
        "# Two words, `code` & more\n## Again\n## Again\n", encoding="utf-8"
    )
    text = (
        "[a](other.md) [b](other.md#two-words-code--more) [c](other.md#again-1) [d](#here)\n#"
        " Here\n[e](gone.md) [f](other.md#nothing) ![g](gone.png)\n"
    )
    assert list(broken_links(page(tmp_path, text))) == [
        "(gone.md) leads to no file",
        "(other.md#nothing): other.md has no such heading",
        "(gone.png) leads to no file",
    ]


def test_code_and_addresses_elsewhere_are_left_alone(tmp_path: Path) -> None:
    text = (
        "```\n[a](gone.md)\n# not a heading\n```\n`[b](gone.md)` [c](https://kafka.apache.org/)"
        " [d](mailto:a@b)\n"
    )
    assert list(broken_links(page(tmp_path, text))) == []
    assert anchors(tmp_path / "page.md") == set()
