"""Records from anywhere into the state that commands show. Knows neither files nor servers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import click

from gateway.cli.state_at import At, time_text
from kwire.cluster import FoldError, Image, Loader
from kwire.errors import WireError
from kwire.records import decode_metadata_record


@dataclass(slots=True)
class State:
    """An image, when the last record in it was written (ms, None where nothing says), and what the
    user should know.
    """

    image: Image
    timestamp: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def time(self) -> str | None:
        """``timestamp`` in ISO 8601, UTC."""
        return None if self.timestamp is None else time_text(self.timestamp)


class Fold:
    """Records into a state, and the trouble with one of them into a sentence."""

    def __init__(self, where: str, at: At) -> None:
        self.where = where
        self.at = at
        self.timestamp: int | None = None
        self.notes: list[str] = []
        self.loader = Loader()

    def take(self, offset: int, epoch: int, timestamp: int, value: bytes | None) -> None:
        """The data record at ``offset``. Raises click.ClickException for one that is none, or does
        not fit.
        """
        try:
            self.loader.load(decode_metadata_record(value or b"")[2], offset, epoch)
        except (FoldError, WireError) as error:
            raise click.ClickException(
                f"{self.where}: offset {offset}: {error}; --at {offset} (or SOURCE@{offset}) gives"
                " the state before it"
            ) from None
        self.done(timestamp)

    def skip_to(self, next_offset: int, epoch: int, timestamp: int) -> None:
        """Control records below ``next_offset`` are dealt with."""
        self.loader.skip_to(next_offset, epoch)
        self.done(timestamp)

    def done(self, timestamp: int) -> None:
        """Note ``timestamp`` as that of the state, unless a transaction is still open."""
        if not self.loader.in_transaction:
            self.timestamp = timestamp

    def state(self) -> State:
        """The folded state, with notes about an open transaction."""
        image = self.loader.image
        if self.loader.in_transaction:
            self.notes.append(
                f"{self.where}: the end is inside a metadata transaction: "
                f"this is the state before it, at offset {image.next_offset}"
            )
        return State(image, self.timestamp, self.notes)


class Progress:
    """A progress bar while there is much to read and standard error is a terminal; else nothing.
    Close it.
    """

    def __init__(self, total: int, worth_it: int) -> None:
        """``total`` is what there is to read, in any unit; below ``worth_it`` it is read before a
        bar could be seen.
        """
        self._bar: Any = None
        if total >= worth_it and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("reading", total=total)

    def at(self, done: int) -> None:
        """So much of it is read."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
