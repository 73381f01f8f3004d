"""Draws the Mermaid blocks of the pages as SVG files: ``python -m tools.site.pictures``.

Git hosts draw the blocks themselves. The site shows the files, so that it needs no script from
elsewhere and works offline. A file is named after its block's text, so a changed block has none
until this runs. It needs npm, which brings Mermaid, and Chromium; building the site needs neither.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "pictures"
_MERMAID: Final = "mermaid@11.12.0"
BLOCK: Final = re.compile(r"^```mermaid\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_DRAWN: Final = re.compile(r'<pre id="(\w+)">(.*?)</pre>', re.DOTALL)
_PAGE: Final = """<!DOCTYPE html><meta charset="utf-8"><script src="mermaid.min.js"></script><body>
<script>
(async () => {
  const base = {startOnLoad: false, theme: "neutral", htmlLabels: false, deterministicIds: true};
  mermaid.initialize({...base, flowchart: {htmlLabels: false}});
  for (const [name, text] of Object.entries(%s)) {
    const drawn = document.createElement("pre");
    drawn.id = name;
    drawn.textContent = (await mermaid.render("p" + name, text)).svg;
    document.body.append(drawn);
  }
})();
</script>"""


@click.command()
def main() -> None:
    """Draw every block that has no picture yet, and delete pictures of blocks that are gone."""
    wanted = {picture(text).stem: text for text in mermaid_blocks()}
    for path in FOLDER.glob("*.svg"):
        if path.stem not in wanted:
            path.unlink()
    missing = {
        name: text for name, text in wanted.items() if not (FOLDER / f"{name}.svg").is_file()
    }
    if missing:
        FOLDER.mkdir(exist_ok=True)
        for name, svg in _draw(missing).items():
            (FOLDER / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
    click.echo(f"{len(wanted)} pictures, {len(missing)} of them new")


def mermaid_blocks() -> Iterable[str]:
    """The text of each Mermaid block of the README and the pages."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            yield block["text"]


def picture(text: str) -> Path:
    """The file of the picture of a block with this text."""
    return FOLDER / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.svg"


def _draw(blocks: dict[str, str]) -> dict[str, str]:
    """The SVG of each block. Raises click.ClickException."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        _run("npm", "pack", "--silent", _MERMAID, where=scratch)
        [archive] = scratch.glob("*.tgz")
        shutil.unpack_archive(archive, scratch)
        shutil.copy(scratch / "package/dist/mermaid.min.js", scratch)
        page = scratch / "page.html"
        page.write_text(_PAGE % json.dumps(blocks).replace("</", "<\\/"), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--virtual-time-budget=60000", "--dump-dom"]
        said = _run("chromium", *options, page.as_uri(), where=scratch)
    drawn = {found[1]: _smaller(html.unescape(found[2])) for found in _DRAWN.finditer(said)}
    if drawn.keys() != blocks.keys():
        texts = [text.splitlines()[0] for name, text in blocks.items() if name not in drawn]
        raise click.ClickException(f"Mermaid did not draw: {'; '.join(texts)}")
    return drawn


def _smaller(svg: str) -> str:
    """The picture without what no eye sees: digits of coordinates, and points kept for scripts."""
    return re.sub(r'(\.\d)\d+| data-points="[^"]*"', r"\1", svg)


def _run(*command: str, where: Path) -> str:
    try:
        done = subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=300, check=False
        )
    except FileNotFoundError:
        raise click.ClickException(f"{command[0]} is not on the PATH") from None
    if done.returncode:
        raise click.ClickException(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
