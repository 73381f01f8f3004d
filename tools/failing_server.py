"""``python -m tools.failing_server PYTHON -c CODE serve --config FILE``: a server on a machine that
can fail: its disks are full, slow or hang, and its wall clock steps.

A failure is on while a file of its name is beside FILE, which :func:`full`, :func:`slow` and
:func:`hanging` write; :func:`step` writes the offset of the clock to shared memory. The failures
are made in the server's process, in the calls of ``os`` and ``time``: no other process sees them,
and no privilege is needed. :data:`BEFORE` is for ``tools.own_quorum`` and ``tools.own_brokers``.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tools.kafka_files import Node

#: The program that runs each node.
BEFORE: Final = (sys.executable, "-m", "tools.failing_server")
_FULL, _SLOW, _HANGING, _CLOCK = "full-disk", "slow-disk", "hanging-disk", "clock-offset"
_OFFSET: Final = struct.Struct("=q")
_POLL_S: Final = 0.01


def full(node: Node, part: str) -> contextlib.AbstractContextManager[None]:
    """The disk of the files of ``node`` whose paths contain ``part`` is full during the block:
    a write fails with ENOSPC and writes nothing, and so does the creation of a file. Everything
    else, removal and truncation too, works.
    """
    return _on(node, _FULL, part)


def slow(node: Node, seconds: float) -> contextlib.AbstractContextManager[None]:
    """Each write and sync of ``node`` takes ``seconds`` longer during the block."""
    return _on(node, _SLOW, str(seconds))


def hanging(node: Node, part: str) -> contextlib.AbstractContextManager[None]:
    """The disk of the files of ``node`` whose paths contain ``part`` hangs during the block: a
    write on the thread of the event loop takes longer than a slow one, and on any other thread it
    does not end before the block.
    """
    return _on(node, _HANGING, part)


def step(node: Node, offset_s: int) -> None:
    """Set the wall clock of ``node`` to ``offset_s`` seconds after that of this machine. The
    monotonic clock runs on, as when a system's clock is set.
    """
    with (node.directory / _CLOCK).open("r+b") as file:
        file.write(_OFFSET.pack(offset_s * 1_000_000_000))


@contextlib.contextmanager
def _on(node: Node, failure: str, text: str) -> Iterator[None]:
    path = node.directory / failure
    _write(path, text)
    try:
        yield
    finally:
        path.unlink()


def _write(path: Path, text: str) -> None:
    """Write a file that is never seen in part."""
    path.with_suffix(".tmp").write_text(text)
    path.with_suffix(".tmp").rename(path)


class _Switch:
    """The file of a failure, read by the process that fails."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def text(self) -> str | None:
        """Return what the file says; None: the failure is off."""
        if not os.path.exists(self._path):
            return None
        with contextlib.suppress(FileNotFoundError), open(self._path) as file:
            return file.read()
        return None


class _Machine:
    """The failures of this process; ``directory`` has their files."""

    def __init__(self, directory: Path) -> None:
        self._full = _Switch(directory / _FULL)
        self._slow = _Switch(directory / _SLOW)
        self._hanging = _Switch(directory / _HANGING)
        self._clock = directory / _CLOCK

    def install(self) -> None:
        """Replace the calls that can fail."""
        for name in ("write", "pwrite"):
            setattr(os, name, self._writing(getattr(os, name)))
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._syncing(getattr(os, name)))
        os.open = self._opening(os.open)
        self._step_clock()

    def _step_clock(self) -> None:
        if not self._clock.exists():
            self._clock.write_bytes(_OFFSET.pack(0))
        with self._clock.open("rb") as file:
            offset = mmap.mmap(file.fileno(), _OFFSET.size, prot=mmap.PROT_READ)
        unpack, time_ns = _OFFSET.unpack_from, time.time_ns
        time.time_ns = lambda: time_ns() + int(unpack(offset)[0])
        time.time = lambda: time.time_ns() / 1e9

    def _writing(self, call: Callable[..., int]) -> Callable[..., int]:
        def write(fd: int, *arguments: Any) -> int:
            self._wait(fd)
            if (part := self._full.text()) is not None:
                _refuse(part, _path_of(fd))
            return call(fd, *arguments)

        return write

    def _syncing(self, call: Callable[[Any], None]) -> Callable[[Any], None]:
        def sync(fd: Any) -> None:
            self._wait(fd)
            call(fd)

        return sync

    def _opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def open(path: Any, flags: int, *arguments: Any, **named: Any) -> int:
            part = self._full.text() if flags & os.O_CREAT else None
            if part is not None and not os.path.exists(path):
                _refuse(part, os.fspath(path))
            return call(path, flags, *arguments, **named)

        return open

    def _wait(self, fd: int) -> None:
        if (seconds := self._slow.text()) is not None and _is_file(fd):
            time.sleep(float(seconds))
        if (part := self._hanging.text()) is not None and part in _path_of(fd):
            from gateway.sources.leader_appends import SLOW_S

            time.sleep(1.5 * SLOW_S)
            if threading.current_thread() is not threading.main_thread():
                while self._hanging.text() is not None:
                    time.sleep(_POLL_S)


def _path_of(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _is_file(fd: int) -> bool:
    """Whether it is neither a pipe nor a socket."""
    return _path_of(fd).startswith("/")


def _refuse(part: str, path: str) -> None:
    if part in path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def prepare(arguments: Sequence[str]) -> list[str]:
    """Let this process fail as the files beside its configuration say; return the arguments of
    ``kwire`` among ``arguments``.
    """
    _, _, _, _, *own = arguments
    _Machine(Path(own[own.index("--config") + 1]).parent).install()
    return own


def main() -> None:
    """Run the server of the command line."""
    arguments = prepare(sys.argv)
    from gateway.cli import main as kwire  # it keeps the calls that are there now

    sys.argv = ["kwire", *arguments]
    sys.exit(kwire())


if __name__ == "__main__":
    main()
