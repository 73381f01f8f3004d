"""``python -m tests.hostile.stepped_clock PYTHON -c CODE serve --config FILE``: a server whose wall
clock steps.

The offset of ``time.time`` and ``time.time_ns`` is in the file ``clock-offset`` beside FILE, which
:func:`step` writes; the monotonic clock runs on, as when a system's clock is set. :data:`BEFORE` is
for ``tools.own_quorum``.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Final

from tests.hostile.counted_server import serve
from tools.kafka_files import Node

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tests.hostile.stepped_clock")
_OFFSET: Final = struct.Struct("=q")
_FILE: Final = "clock-offset"


def step(node: Node, offset_s: int) -> None:
    """Set the wall clock of a node to ``offset_s`` seconds after that of this machine."""
    with (node.directory / _FILE).open("r+b") as file:
        file.write(_OFFSET.pack(offset_s * 1_000_000_000))


def _patch(path: Path) -> None:
    """Add the offset in the file at ``path`` to the wall clock of this process."""
    if not path.exists():
        path.write_bytes(_OFFSET.pack(0))
    with path.open("rb") as file:
        offset = mmap.mmap(file.fileno(), _OFFSET.size, prot=mmap.PROT_READ)
    unpack, time_ns = _OFFSET.unpack_from, time.time_ns
    time.time_ns = lambda: time_ns() + int(unpack(offset)[0])
    time.time = lambda: time.time_ns() / 1e9


def main() -> None:
    """Run the server."""
    _, _, _, _, *arguments = sys.argv
    _patch(Path(arguments[arguments.index("--config") + 1]).parent / _FILE)
    serve(arguments)


if __name__ == "__main__":
    main()
