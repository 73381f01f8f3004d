"""Runs ``kwire serve`` as a child process, as a user starts it: ``with gateway("--source", "log",
...) as server:``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.loop_reports import loop_reports
from tools.process import PATIENCE_S, Process, ProcessError

#: The console script's function, by this interpreter, so that it works from a checkout too.
KWIRE = (sys.executable, "-c", "import sys; from gateway.cli import main; sys.exit(main())")
#: The environment of a user's ``kwire serve``: it finds the byte code of the last run.
SERVE_ENV = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": ""}

#: Options that select a source.
_SOURCES = (
    "--source",
    "--log-dir",
    "--log-dirs",
    "--bootstrap-controller",
    "--config",
    "--data-dir",
)


@dataclass
class Gateway:
    """A ``kwire serve`` that is ready. ``ready`` is its ready line; it took ``started_in_s``."""

    process: Process
    ready: dict[str, Any]
    started_in_s: float

    @property
    def bootstrap(self) -> str:
        """``host:port`` of its first listener."""
        return str(next(iter(self.ready["listeners"].values())))

    @property
    def pid(self) -> int:
        return self.process.pid


@contextlib.contextmanager
def gateway(*arguments: str, timeout_s: float = PATIENCE_S) -> Iterator[Gateway]:
    """``kwire serve --listeners PLAINTEXT://127.0.0.1:0`` with ``arguments``; it must exit with 0
    at the end of the block.

    Raises ProcessError if it is not ready within ``timeout_s``, or exits with another status.
    """
    with tempfile.TemporaryDirectory(prefix="kwire-serve-") as scratch:
        began = time.monotonic()
        process = launch(Path(scratch), *arguments)
        try:
            yield wait_until_ready(process, timeout_s, began)
            running = process.running()
        except BaseException:
            process.kill()
            print(process.output_end(), file=sys.stderr)
            raise
        status = process.stop()
        if status != 0 or not running:
            raise ProcessError(
                f"kwire serve ended with {status}, not by itself with 0 after"
                f" SIGTERM:\n{process.output_end()}"
            )


def launch(scratch: Path, *arguments: str) -> Process:
    """Start ``kwire serve`` without waiting for it; its output is appended to a file in
    ``scratch``.

    It serves the sample log unless the arguments name another source.
    """
    # A state directory of its own, so that no run sees the committed offsets of another.
    defaults = ["--listeners", "PLAINTEXT://127.0.0.1:0", "--state-dir", f"{scratch}/state"]
    if not any(argument.partition("=")[0] in _SOURCES for argument in arguments):
        defaults += ["--source", "sample"]
    process = Process(
        "kwire serve", [*KWIRE, "serve", *defaults, *arguments], scratch / "output", SERVE_ENV
    )
    loop_reports.watch(process)
    return process


def wait_until_ready(process: Process, timeout_s: float, began: float) -> Gateway:
    """Return when a process of :func:`launch`, started at ``began`` (monotonic), reports that it is
    ready. Raises ProcessError.
    """
    process.wait_until(lambda: ready_line(process) is not None, timeout_s, interval_s=0.005)
    return Gateway(process, ready_line(process) or {}, time.monotonic() - began)


def ready_line(process: Process) -> dict[str, Any] | None:
    """Return the JSON line ``{"event": "ready", ...}`` in the output so far, which may have log
    lines too.
    """
    for line in process.log.read_text(errors="replace").splitlines():
        if line.startswith("{") and '"ready"' in line:
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if value.get("event") == "ready":
                    return dict(value)
    return None
