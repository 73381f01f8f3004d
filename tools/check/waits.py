"""Reports how fast the server and the library were, from the figures that tests noted.

A figure is the best of its rounds, and its bar is three times its usual value: a machine that does
other work as well is slow in some rounds, not in all. This module judges figures;
``tests/speed.py`` notes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

#: The bar of a figure, as a multiple of its usual value.
_BAR: Final = 3


class Figure(NamedTuple):
    """The best round of one measurement, in seconds."""

    test: str
    what: str
    rounds: int
    best_s: float
    usual_s: float

    @property
    def over(self) -> bool:
        """True if it exceeds its bar."""
        return self.best_s > _BAR * self.usual_s

    def __str__(self) -> str:
        times = f"{1000 * self.best_s:.1f} ms, usually {1000 * self.usual_s:.1f} ms"
        over = f"  OVER {_BAR} TIMES THAT" if self.over else ""
        return f"{self.test}: {self.what}: best of {self.rounds}: {times}{over}"


def figures(lines: Iterable[str]) -> list[Figure]:
    """The figures of the lines that ``tests.speed.note`` wrote, in the order of the first ones."""
    found: dict[tuple[str, str], Figure] = {}
    for row in map(json.loads, lines):
        key = row["test"], row["what"]
        before = found.get(key, Figure(*key, 0, row["seconds"], row["usual_s"]))
        best_s = min(before.best_s, row["seconds"])
        found[key] = before._replace(rounds=before.rounds + 1, best_s=best_s)
    return list(found.values())
