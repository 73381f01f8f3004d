"""Something wrong on disk, as a value: the file, where in it, and why. Who reports it, and how, is decided above."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What keeps bytes of the log from being served. ``position`` is in bytes, -1 where the whole file is meant."""

    file: str
    position: int
    reason: str

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position >= 0 else ""
        return f"{self.file}{where}: {self.reason}"
