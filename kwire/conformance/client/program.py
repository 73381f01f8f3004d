"""Runs the program that is graded: starts it, keeps what it prints, and ends all its processes.

A process may leave the process group (``setsid``) and its parent (a second ``fork``), but it keeps
its environment. Each start has a mark of its own there, by which Linux shows the processes that are
left (``/proc``). Elsewhere the process group alone is ended.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from kwire.conformance.outcome import CheckEnd

#: Bytes of standard output and of standard error that are kept; more is read and dropped.
_KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
_CHUNK: Final = 1 << 16
#: How long a program may take to end after SIGTERM.
_TERMINATE_S: Final = 3.0
_EXCERPT: Final = 4000
#: The variable of the environment by which the processes of one start are found.
_MARK: Final = "KWIRE_CONFORM_PROGRAM"
_PROC: Final = Path("/proc")
#: Processes that fork faster than they are found are left after so many rounds.
_ROUNDS_MAX: Final = 20


@dataclass(frozen=True)
class Command:
    """The words of a command line. ``{bootstrap}``, ``{topic}`` and ``{group}`` in a word are
    replaced.
    """

    words: Sequence[str]
    topic: str = "kwire-conform"
    group: str = "kwire-conform"

    def line(self, bootstrap: str) -> list[str]:
        """The words of one start."""
        values = {"{bootstrap}": bootstrap, "{topic}": self.topic, "{group}": self.group}
        words = list(self.words)
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        return words

    def problem(self) -> str | None:
        """Why the command cannot be run, None if it can."""
        if not any("{bootstrap}" in word for word in self.words):
            return "the command has no {bootstrap}, which stands for the address of the cluster"
        if shutil.which(self.words[0]) is None:
            return f"there is no program {self.words[0]}"
        return None


class Running:
    """A program that was started. ``stop`` has to be called."""

    def __init__(self, words: Sequence[str]) -> None:
        # Python writes to a pipe in blocks, which would be lost at SIGTERM.
        self._mark = secrets.token_hex(8)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", _MARK: self._mark}
        try:
            self._child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise CheckEnd(f"the program cannot be started: {error}") from None
        assert self._child.stdout is not None and self._child.stderr is not None
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, self._kept[name]), daemon=True)
            for name, pipe in (("stdout", self._child.stdout), ("stderr", self._child.stderr))
        ]
        for reader in self._readers:
            reader.start()
        self._stopped = False

    def _read(self, pipe: IO[bytes], kept: bytearray) -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(pipe.fileno(), _CHUNK):
                kept += data[: max(0, _KEPT_BYTES_MAX - len(kept))]

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs, and if ``stop`` ended it."""
        return None if self._stopped else self._ended()

    def _ended(self) -> int | None:
        """The exit status. The process stays a zombie, so that its id is no other process's."""
        if self._child.returncode is not None:
            return self._child.returncode
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def output(self) -> bytes:
        """Standard output so far."""
        return bytes(self._kept["stdout"])

    def last_error(self) -> str:
        """The last line of standard error that is not empty."""
        lines = self._kept["stderr"].decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def texts(self) -> Mapping[str, str]:
        """Exit status and the ends of standard output and standard error, for a report."""
        found = {} if self.status is None else {"exit status": str(self.status)}
        for name, kept in self._kept.items():
            if kept:
                found[name] = bytes(kept[-_EXCERPT:]).decode(errors="replace")
        return found

    def stop(self) -> None:
        """End the program's processes: SIGTERM, and SIGKILL for what is left."""
        if self._child.returncode is not None:
            return
        if self._ended() is None:
            self._stopped = True
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + _TERMINATE_S
            while self._ended() is None and time.monotonic() < deadline:
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        # A process may have forked while it was looked for.
        for _ in range(_ROUNDS_MAX):
            if not self._signal_marked(signal.SIGKILL):
                break
        self._child.wait()
        for reader, pipe in zip(
            self._readers, (self._child.stdout, self._child.stderr), strict=True
        ):
            reader.join(1.0)
            # A process that was not found may hold the other end. Its pipe stays open.
            if pipe is not None and not reader.is_alive():
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        # The group outlives its first process while another one is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
        self._signal_marked(number)

    def _signal_marked(self, number: signal.Signals) -> int:
        """Send a signal to each process of this start that has left the group and is no zombie;
        return how many there are.
        """
        mark = f"{_MARK}={self._mark}".encode()
        found = 0
        for entry in _PROC.glob("[0-9]*"):
            # Opened first, so that the number is still that of the process when it is looked at.
            with contextlib.suppress(OSError), _opened(int(entry.name)) as process:
                is_marked = mark in (entry / "environ").read_bytes().split(b"\0")
                if is_marked and os.getpgid(int(entry.name)) != self._child.pid:
                    found += 1
                    signal.pidfd_send_signal(process, number)
        return found


@contextlib.contextmanager
def _opened(pid: int) -> Iterator[int]:
    """Yield a handle of a process, which no later process of the same number shares."""
    process = os.pidfd_open(pid)
    try:
        yield process
    finally:
        os.close(process)
