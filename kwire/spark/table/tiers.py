"""Says which of the files of a table are to be merged: so that there are few, and a row is written
again as often as its number has digits to the base of ``FANOUT``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: So many files of a size are made into one.
FANOUT: Final = 12


def level_of(rows: int) -> int:
    """The level of a file of so many rows."""
    level = 0
    while rows >= FANOUT:
        rows, level = rows // FANOUT, level + 1
    return level


def due(levels: Sequence[int]) -> tuple[int, int]:
    """The number of the last files, which are in order, that are to be merged, and the level of the
    new one: smaller files with the larger one behind them, or ``FANOUT`` of one level. 0 if none.
    """
    last = levels[-1] if levels else 0
    smaller = same = 1
    while smaller < len(levels) and levels[-smaller - 1] < last:
        smaller += 1
    while same < len(levels) and levels[-same - 1] == last:
        same += 1
    if smaller > 1:
        return smaller, last
    return (same, last + 1) if same >= FANOUT else (0, 0)
