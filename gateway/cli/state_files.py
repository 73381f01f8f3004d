"""Builds a cluster's state from files for a command: with a progress bar, and errors that name the
command's own options.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.base.sizes import MIB
from gateway.cli.progress import Progress
from gateway.cli.state_errors import state_errors
from kwire.metadata_log.at import At
from kwire.metadata_log.fold import State
from kwire.metadata_log.state import load_state

#: Reading so many bytes takes a second or two: show progress for more.
_PROGRESS_BYTES_MIN: Final = 8 * MIB


def load_files(paths: Sequence[Path], at: At) -> State:
    """Return the state in a directory, or in the given segments and snapshots together, up to
    ``at``. Raises click.ClickException.
    """
    bar: Progress | None = None
    with contextlib.ExitStack() as closed_at_end, state_errors():

        def show(done: int, total: int) -> None:
            nonlocal bar
            if bar is None:
                bar = closed_at_end.enter_context(
                    contextlib.closing(Progress(total, _PROGRESS_BYTES_MIN))
                )
            bar.at(done)

        return load_state(paths, at, progress=show)
