"""``python -m tests.hostile.full_disk PYTHON -c CODE serve --config FILE``: a server one of whose
disks can be full.

While the file ``full-disk`` beside FILE exists, a write to a file whose path contains the text in
it writes nothing and fails with ENOSPC, and so does the creation of a file. Everything else,
removal and truncation too, works as on a disk that is full. :data:`BEFORE` is for
``tools.own_quorum``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.hostile.counted_server import serve
from tools.kafka_files import Node

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tests.hostile.full_disk")
_FILE: Final = "full-disk"


@contextlib.contextmanager
def full(node: Node, part: str) -> Iterator[None]:
    """The disk of the files of ``node`` whose paths contain ``part`` is full during the block."""
    path = node.directory / _FILE
    path.with_suffix(".tmp").write_text(part)
    path.with_suffix(".tmp").rename(path)
    try:
        yield
    finally:
        path.unlink()


class _Disk:
    def __init__(self, switch: Path) -> None:
        self._switch = switch

    def refuse(self, path: str) -> None:
        """Raise OSError if the disk of ``path`` is full."""
        with contextlib.suppress(FileNotFoundError):
            if self._switch.read_text() in path:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def writing(self, call: Callable[..., int]) -> Callable[..., int]:
        def write(fd: int, *arguments: Any) -> int:
            if self._switch.exists():
                self.refuse(os.readlink(f"/proc/self/fd/{fd}"))
            return call(fd, *arguments)

        return write

    def opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def open(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            if flags & os.O_CREAT and self._switch.exists() and not os.path.exists(path):
                self.refuse(os.fspath(path))
            return call(path, flags, *arguments, **named)

        return open


def main() -> None:
    """Run the server."""
    _, _, _, _, *arguments = sys.argv
    disk = _Disk(Path(arguments[arguments.index("--config") + 1]).parent / _FILE)
    os.write, os.pwrite = disk.writing(os.write), disk.writing(os.pwrite)
    os.open = disk.opening(os.open)
    serve(arguments)


if __name__ == "__main__":
    main()
