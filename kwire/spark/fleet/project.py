"""Writes a program that keeps the fleet's tables, for its user to edit: ``kwire spark init``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

PROGRAM: Final = "fleet.py"


def write_project(directory: Path, clusters: Mapping[str, str]) -> Path:
    """Write the program for ``clusters``, HOST:PORT by name, into ``directory``, which is made, and
    return its path. Raises FileExistsError if it is there; OSError.
    """
    template = (resources.files("kwire.spark") / "project" / f"{PROGRAM}.txt").read_text("utf-8")
    text = template.format(
        program=PROGRAM,
        clusters=json.dumps(clusters, indent=4),
        tables=json.dumps(str(directory.absolute() / "tables")),
    )
    path = directory / PROGRAM
    directory.mkdir(parents=True, exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
    return path
