"""Collects what is wrong with a log: file, position, rule, and whether the bytes are damaged."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Findings of one rule in one file that are kept: one fault can break every batch behind it.
_KEPT_MAX: Final = 10


@dataclass(frozen=True)
class Finding:
    """One broken rule. ``position`` is a byte of the file, -1 where the whole file is meant."""

    rule_id: str
    file: Path
    position: int
    sentence: str
    is_damage: bool

    def text(self) -> str:
        """Return the finding as one sentence that begins with file and position."""
        where = self.file.name if self.position < 0 else f"{self.file.name} at {self.position}"
        return f"{where}: {self.sentence}"


@dataclass
class Findings:
    """The findings of a log, in the order in which they were made."""

    kept: list[Finding] = field(default_factory=list)
    _counts: Counter[tuple[str, Path]] = field(default_factory=Counter)

    def wrong(self, rule_id: str, file: Path, position: int, sentence: str) -> None:
        """Add a rule that whole bytes break."""
        self._add(Finding(rule_id, file, position, sentence, False))

    def damaged(self, rule_id: str, file: Path, position: int, sentence: str) -> None:
        """Add a place whose bytes no server can have written."""
        self._add(Finding(rule_id, file, position, sentence, True))

    def _add(self, finding: Finding) -> None:
        key = finding.rule_id, finding.file
        self._counts[key] += 1
        if self._counts[key] <= _KEPT_MAX:
            self.kept.append(finding)

    def left_out(self) -> list[str]:
        """Return a sentence for each rule and file with more findings than are kept."""
        return [
            f"{rule_id}: {count - _KEPT_MAX} more in {file.name}"
            for (rule_id, file), count in self._counts.items()
            if count > _KEPT_MAX
        ]
