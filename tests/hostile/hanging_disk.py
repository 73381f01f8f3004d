"""``python -m tests.hostile.hanging_disk PYTHON -c CODE serve --config FILE``: a server that has a
disk which can hang.

While the file ``hanging-disk`` beside FILE exists, a write to a file whose path contains the text
in it takes :data:`SLOW_S` on the thread of the event loop, and on any other does not end before the
file is gone. :data:`BEFORE` is for ``tools.own_quorum``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from gateway.sources.leader_appends import SLOW_S
from tests.waiting import until
from tools.kafka_files import Node

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tests.hostile.hanging_disk")
_FILE: Final = "hanging-disk"


@contextlib.contextmanager
def hanging(node: Node, part: str) -> Iterator[None]:
    """The disk of the files of ``node`` whose paths contain ``part`` hangs during the block."""
    path = node.directory / _FILE
    path.with_suffix(".tmp").write_text(part)
    path.with_suffix(".tmp").rename(path)
    try:
        yield
    finally:
        path.unlink()


def _hanging(switch: Path, call: Callable[..., int]) -> Callable[..., int]:
    def write(fd: int, *arguments: Any) -> int:
        if _hangs(switch, fd):
            time.sleep(1.5 * SLOW_S)
            if threading.current_thread() is not threading.main_thread():
                until(lambda: not _hangs(switch, fd), "the disk works again")
        return call(fd, *arguments)

    return write


def _hangs(switch: Path, fd: int) -> bool:
    try:
        return switch.read_text() in os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return False


def main() -> None:
    """Run the server."""
    _, _, _, _, *arguments = sys.argv
    switch = Path(arguments[arguments.index("--config") + 1]).parent / _FILE
    os.pwrite = _hanging(switch, os.pwrite)
    from gateway.cli import main as kwire

    sys.argv = ["kwire", *arguments]
    sys.exit(kwire())


if __name__ == "__main__":
    main()
