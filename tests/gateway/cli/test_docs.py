"""``kwire docs``: pages by name, and the copy."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from gateway.cli import main
from gateway.cli.docs import documentation


def test_page_is_printed_as_markdown_on_a_pipe() -> None:
    for name in ("own-quorum", "own-quorum.md"):
        result = CliRunner().invoke(main, ["docs", name])
        assert result.exit_code == 0
        assert result.stdout == (documentation() / "docs" / "own-quorum.md").read_text()


def test_list_of_pages_is_the_default() -> None:
    result = CliRunner().invoke(main, ["docs"])
    assert result.stdout == (documentation() / "docs" / "index.md").read_text()


def test_unknown_page_gets_a_guess_and_exit_status_2() -> None:
    result = CliRunner().invoke(main, ["docs", "own-quorom"])
    assert result.exit_code == 2 and "did you mean own-quorum?" in result.stderr


def test_path_out_of_the_documentation_is_no_page() -> None:
    result = CliRunner().invoke(main, ["docs", "../docs/own-quorum"])
    assert result.exit_code == 2 and "no page" in result.stderr


def test_copy_has_the_pages_with_their_examples_and_overwrites_nothing(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    result = CliRunner().invoke(main, ["docs", "--to", str(target)])
    assert result.exit_code == 0, result.output
    assert (target / "docs/examples/operations/kwire.service").is_file()
    assert (target / "README.md").is_file()
    before = sorted(target.rglob("*"))
    result = CliRunner().invoke(main, ["docs", "--to", str(target)])
    assert result.exit_code == 1 and "File exists" in result.stderr
    assert sorted(target.rglob("*")) == before
