"""Runs the program that is graded: starts it, keeps what it prints, and ends its process group."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Final

from kwire.conformance.outcome import CheckEnd

#: Bytes of standard output and of standard error that are kept; more is read and dropped.
_KEPT_BYTES_MAX: Final = 8 * 1024 * 1024
_CHUNK: Final = 1 << 16
#: How long a program may take to end after SIGTERM.
_TERMINATE_S: Final = 3.0
_EXCERPT: Final = 4000


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
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
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
        """End the process group: SIGTERM, and SIGKILL for what is left."""
        if self._child.returncode is not None:
            return
        if self._ended() is None:
            self._stopped = True
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + _TERMINATE_S
            while self._ended() is None and time.monotonic() < deadline:
                time.sleep(0.02)
        self._signal(signal.SIGKILL)
        self._child.wait()
        for reader, pipe in zip(
            self._readers, (self._child.stdout, self._child.stderr), strict=True
        ):
            reader.join(1.0)
            # A process that left the group may hold the other end. Its pipe stays open.
            if pipe is not None and not reader.is_alive():
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        # The group outlives its first process while another one is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)
