"""The page on strictness names every rule of ``kwire.records``, with the numbers of the vectors."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.kwire.records.test_vectors import STRICTER, STRICTER_FRAMES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "strictness-records.md").read_text(encoding="utf-8")


def test_every_rule_is_on_the_page() -> None:
    sources = [*(ROOT / "kwire" / "records").glob("*.py"), ROOT / "kwire" / "varint.py"]
    code = "".join(path.read_text(encoding="utf-8") for path in sources)
    used = set(re.findall(r'rule(?: = |=)"([a-z0-9-]+)"', code)) | {
        # Of the library's complaints, and of the messages inside.
        "lz4-content-checksum", "lz4-content-size", "tag-size",
    }  # fmt: skip
    named = {
        rule
        for line in PAGE.splitlines()
        for rule in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+|crc|truncated|null)`", line)
    }
    assert used == named


def test_counts_on_the_page_are_those_of_the_vectors() -> None:
    for release, column in (("4.4.0", -2), ("4.3.1", -1)):
        counts: Counter[str] = Counter()
        for rules in [
            *STRICTER.values(),
            *(rules for (_, of), rules in STRICTER_FRAMES.items() if of == release),
        ]:
            counts.update(rules)
        rows = [
            line.strip("| ").split("|")
            for line in PAGE.splitlines()
            if re.match(r"\| `[a-z0-9-]+` \|.*\| \d+ \| \d+ \|", line)
        ]
        assert {row[0].strip(" `"): int(row[column]) for row in rows} == counts
