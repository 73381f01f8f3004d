"""Implements ``kwire docs``: shows the pages of the documentation that the package brings.

The pages and the files of their examples are data of the distribution (``share/doc/kwire``); in a
checkout they are the tree's own. It makes no requests.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import shutil
import sys
from pathlib import Path
from typing import Final

import click

#: The first page, from the top of the documentation.
_FIRST: Final = "docs/index.md"


@click.command(
    "docs",
    short_help="Show the documentation, or copy it with its examples.",
    epilog="""\b
Examples:
  kwire docs
  kwire docs own-quorum
  kwire docs --to kwire-docs && ls kwire-docs/docs/examples/operations""",
)
@click.argument("page", default="index")
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy all pages and examples (Prometheus, Grafana, systemd, containers, Spark) into DIR,"
    " which is made.",
)
def command(page: str, target: Path | None) -> None:
    """Show PAGE of the documentation, by default the list of all pages. A pipe gets Markdown."""
    top = documentation()
    if target is not None:
        _copy(top, target)
        return
    text = _page(top, page.removesuffix(".md")).read_text(encoding="utf-8")
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))


def documentation() -> Path:
    """The directory with README.md and docs. Raises click.ClickException if it is not installed."""
    try:
        installed = importlib.metadata.files("kwire") or []
    except importlib.metadata.PackageNotFoundError:
        installed = []
    for file in installed:
        if file.as_posix().endswith(f"share/doc/kwire/{_FIRST}"):
            return Path(str(file.locate())).resolve().parents[1]
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "setup.cfg").is_file() and (checkout / _FIRST).is_file():
        return checkout
    raise click.ClickException("this installation of kwire has no documentation in share/doc/kwire")


def _page(top: Path, name: str) -> Path:
    """The file of a page by its name: ``own-quorum``, ``README``, ``decisions/README``."""
    for path in (top / "docs" / f"{name}.md", top / f"{name}.md"):
        if ".." not in name and path.is_file():
            return path
    names = sorted(path.stem for path in (top / "docs").glob("*.md"))
    close = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    raise click.UsageError(f"no page {name}: {guess}kwire docs lists all")


def _copy(top: Path, target: Path) -> None:
    """Copy the documentation; no file is ever overwritten."""
    try:
        shutil.copytree(top / "docs", target / "docs")
        for name in ("README.md", "CHANGELOG.md"):
            shutil.copy(top / name, target)
    except OSError as error:
        where = error.filename2 or error.filename
        raise click.ClickException(f"{where}: {error.strerror}") from None
    click.echo(target / _FIRST)
