"""Shows a progress bar on a terminal while a command reads much."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """A progress bar for long reads while standard error is a terminal; else nothing. Close it."""

    def __init__(self, total: int, worth_it: int, name: str = "reading") -> None:
        """``total`` is the amount to read, in any unit; less than ``worth_it`` gets no bar.
        ``name`` stands before the bar.
        """
        self._bar: Any = None
        if total >= worth_it and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(name, total=total)

    def at(self, done: int) -> None:
        """Show that so much is read."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
