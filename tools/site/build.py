"""Runs Sphinx over the Markdown pages of the tree.

It does not choose the pages: ``conf.py`` does, and docs/index.md orders them.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SITE: Final = str(ROOT / "build" / "docs")


class SiteError(Exception):
    """The site could not be built without warnings; the text is what Sphinx wrote."""


def build(directory: str) -> int:
    """Build the site into ``directory`` and return its number of pages. Raises SiteError."""
    if importlib.util.find_spec("sphinx") is None:
        raise SiteError("Sphinx is not installed: python -m pip install -e '.[docs]'")
    # -E reads every page anew, because a heading that went breaks links of pages that stayed.
    options = ["-b", "html", "-W", "--keep-going", "-q", "-E", "-c", str(Path(__file__).parent)]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT), directory]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError((done.stdout + done.stderr)[-8000:].rstrip())
    return sum(1 for _ in Path(directory).rglob("*.html"))
