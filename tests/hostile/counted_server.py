"""``python -m tests.hostile.counted_server PYTHON -c CODE serve --config FILE``: a server that
counts its work, and ends slices and passes of the event loop by that count.

A unit of work is the begin or the end of a call on the thread of the event loop
(``tests/work.py``). ``time.perf_counter``, by which the server ends a slice, is that count, at
``UNITS_PER_S``. So a pass does the same work on every machine, however busy that is, and work that
is not cut into slices shows as a long pass. All other clocks are real: trio's, ``time.monotonic``
and ``time.time``.

Not counted: a loop that calls nothing, the work inside a built-in function, and system calls.

The file ``longest-pass`` beside FILE holds the units of the longest pass, which
:class:`LongestPass` reads. With ``KWIRE_SPEED`` the server runs without all this, as its speed
is measured then (``tests/speed.py``). :data:`BEFORE` is for ``tools.own_quorum``.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import trio

from tests.work import counting
from tools.kafka_files import Node

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tests.hostile.counted_server")
#: The program that runs each node without an end of slices, as its clock stands still.
UNCUT: Final = (
    sys.executable,
    "-c",
    "from tests.hostile import counted_server; counted_server.main(float('inf'))",
)
#: The units of work in a second of ``time.perf_counter``: about as many as a processor does.
UNITS_PER_S: Final = 10e6
#: The most units of work in one pass: 100 ms of that clock. Slices of 5 ms, and what a pass serves
#: besides, take half of that at most.
UNITS_MAX: Final = 1_000_000
_FILE: Final = "longest-pass"
_UNITS: Final = struct.Struct("=q")


class LongestPass:
    """The units of the longest pass of a server, shared with its process by the file ``path``."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_UNITS.size))
        with path.open("r+b") as file:
            self._kept = mmap.mmap(file.fileno(), _UNITS.size)

    def note(self, units: int) -> None:
        """Keep the units of a pass if none was longer."""
        if units > _UNITS.unpack_from(self._kept)[0]:
            _UNITS.pack_into(self._kept, 0, units)

    def take(self) -> int:
        """The units of the longest pass since the last call; 0 if the server does not count."""
        (units,) = _UNITS.unpack_from(self._kept)
        _UNITS.pack_into(self._kept, 0, 0)
        return int(units)


class PassMeter(trio.abc.Instrument):
    """Notes each pass of a run. ``now`` returns the units so far; in a profiler, it counts them."""

    def __init__(self, longest_pass: LongestPass, now: Callable[[], int]) -> None:
        self._longest_pass = longest_pass
        self._now = now
        self._began = now()

    def after_io_wait(self, timeout: float) -> None:
        """Called by trio when a pass begins."""
        self._began = self._now()

    def before_io_wait(self, timeout: float) -> None:
        """Called by trio when a pass has ended."""
        self._longest_pass.note(self._now() - self._began)


def longest_pass_of(node: Node) -> LongestPass:
    """The longest pass of a running node."""
    return LongestPass(node.directory / _FILE)


def serve(arguments: Sequence[str], units_per_s: float = UNITS_PER_S) -> None:
    """Run ``kwire`` with ``arguments``."""
    if "KWIRE_SPEED" not in os.environ:
        now = itertools.count().__next__
        longest_pass = LongestPass(Path(arguments[arguments.index("--config") + 1]).parent / _FILE)
        meter, profile, run = PassMeter(longest_pass, now), counting(now), trio.run

        def counted_run(*main: Any) -> Any:
            profile.enable()  # not before: a start, which is no pass, would take half as long again
            return run(*main, instruments=[meter])

        trio.run = counted_run  # type: ignore[assignment]
        time.perf_counter = lambda: now() / units_per_s
    from gateway.cli import main as kwire  # it keeps the clock that is there now

    sys.argv = ["kwire", *arguments]
    sys.exit(kwire())


def main(units_per_s: float = UNITS_PER_S) -> None:
    """Run the server of the command line."""
    _, _, _, _, *arguments = sys.argv
    serve(arguments, units_per_s)


if __name__ == "__main__":
    main()
