"""Describes damage on disk as a value: the file, the position in it, and the reason.

It does not report anything: the source that serves the log does, and ``/readyz`` shows it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Why bytes of a log are not served. ``position`` is in bytes, -1 for the whole file."""

    file: str
    position: int
    reason: str

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position >= 0 else ""
        return f"{self.file}{where}: {self.reason}"
