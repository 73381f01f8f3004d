"""Packs a directory of schemas into the one file that this package ships: ``python -m
kwire.reference.pack schemas``.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from kwire.reference.facts import DATA_FILE


def gather(schemas: Path) -> dict[str, dict[str, Any]]:
    """Family -> name -> facts of every schema below ``schemas``; a family is a directory with
    schema files in it.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(schemas.rglob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(facts, dict) and "validVersions" in facts:
            found.setdefault(path.parent.relative_to(schemas).as_posix(), {})[facts["name"]] = facts
    return found


def main() -> None:
    """Write the data file beside this module."""
    schemas = Path(sys.argv[1] if len(sys.argv) > 1 else "schemas")
    text = json.dumps(gather(schemas), separators=(",", ":"), ensure_ascii=True)
    target = Path(__file__).with_name(DATA_FILE)
    target.write_bytes(lzma.compress(text.encode("ascii"), preset=9))
    print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
