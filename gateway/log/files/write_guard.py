"""Refuses changes of a log after a failure that left its files in an unknown state.

It does not repair anything: opening the log again does (``gateway.log.metadata.recovery``). Kafka
takes the whole log directory offline instead (``LogDirFailureChannel``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gateway.log.files.disk import doing
from gateway.log.files.errors import LogFailed, SyncFailed


class WriteGuard:
    """The failure that a log in ``directory`` has met, if any. ``advice`` ends the error text."""

    def __init__(self, directory: Path, advice: str) -> None:
        self.reason = ""  #: the first failure, empty while there is none
        self._directory = directory
        self._advice = advice

    def check(self) -> None:
        """Raises LogFailed after a failure."""
        if self.reason:
            raise LogFailed(
                f"the log in {self._directory} cannot be changed: {self.reason}{self._advice}"
            )

    def fail(self, error: BaseException | str) -> None:
        """Refuse every later change. The first reason stands: later ones follow from it."""
        # An exception may have no text, and an empty reason would mean that there is no failure.
        self.reason = self.reason or str(error) or type(error).__name__

    @contextlib.contextmanager
    def several_steps(self) -> Iterator[None]:
        """Run a change of several files. If it stops halfway, memory and files disagree."""
        try:
            with doing("change", self._directory):
                yield
        # An interrupt too: which of the steps were done is not known.
        except BaseException as error:
            self.fail(error)
            raise

    @contextlib.contextmanager
    def one_file(self) -> Iterator[None]:
        """Run the replacement of one whole file, which leaves the old content or the new one.

        Only a failed sync is fatal: Linux marks the pages as clean after it, so that a second fsync
        succeeds although the data was lost. Which content a crash would leave is then unknown.
        """
        try:
            yield
        # Any other error leaves the old file, because the rename is the last step.
        except SyncFailed as error:
            self.fail(error)
            raise
