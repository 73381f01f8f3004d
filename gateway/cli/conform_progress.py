"""Shows how far ``kwire conform`` is, on standard error, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.conformance.outcome import Result


@contextlib.contextmanager
def byte_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Within the block, a bar of (bytes read, bytes in all); None if there is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress

    with Progress(
        BarColumn(), DownloadColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("bytes")
        yield lambda read, total: bar.update(task, completed=read, total=total)


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[Result], None]]:
    """Yield a function that advances the progress bar; the caller passes it each result."""
    if not sys.stderr.isatty():
        yield lambda result: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("rules", total=total)
        failed = 0

        def told(result: Result) -> None:
            nonlocal failed
            failed += result.outcome.is_failure
            text = f"{result.rule.family}" + (f", {failed} failed" if failed else "")
            bar.update(task, advance=1, description=text)

        yield told
