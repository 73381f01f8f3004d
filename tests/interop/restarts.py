"""A ``kwire serve`` that is killed repeatedly, and restarts at the same address with the same
directory.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.gateway_process import Gateway, launch, wait_until_ready
from tools.process import Process, lasting_ports


class Restarted:
    """``with Restarted(scratch, *arguments) as server``: one process at a time, always at
    ``address``.
    """

    def __init__(self, scratch: Path, *arguments: str) -> None:
        self.address = f"127.0.0.1:{lasting_ports(1)[0]}"
        self.kills = 0
        self._scratch = scratch
        self._outputs: list[Path] = []
        self._arguments = [*arguments, "--listeners", f"PLAINTEXT://{self.address}"]
        self._process: Process | None = None
        self._kills: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._kills is not None:
            self._kills.join()
        if self._process is not None:
            if error is not None:
                print(self.output_end()[-20_000:])
            self._process.kill()

    def start(self, timeout_s: float = 30) -> Gateway:
        """Start it, and wait until it is ready. Raises ProcessError."""
        began = time.monotonic()
        self._launch()
        assert self._process is not None
        return wait_until_ready(self._process, timeout_s, began)

    def kill(self) -> None:
        """``kill -9``."""
        assert self._process is not None
        self._process.kill()
        self.kills += 1

    def output_end(self) -> str:
        """The output of all its processes."""
        return "".join(path.read_text(errors="replace") for path in self._outputs)

    def kill_at_random(self, times: int, rand: random.Random, longest_s: float = 3) -> None:
        """In a thread: kill the process ``times`` times after random times, some too short for
        it to become ready.
        """

        def run() -> None:
            try:
                for _ in range(times):
                    time.sleep(rand.uniform(0.05, longest_s))
                    assert self._process is not None
                    assert self._process.running(), (
                        f"it ended by itself:\n{self._process.output_end()}"
                    )
                    self.kill()
                    self._launch()
            except BaseException as error:
                self._error = error

        self._kills = threading.Thread(target=run, name="kills", daemon=True)
        self._kills.start()

    def wait_for_kills(self, timeout_s: float) -> None:
        """Return when :meth:`kill_at_random` has ended. Raises its exception."""
        assert self._kills is not None
        self._kills.join(timeout_s)
        assert not self._kills.is_alive(), f"only {self.kills} kills in time"
        if self._error is not None:
            raise self._error

    def _launch(self) -> None:
        # A directory for each: "ready" must be what this process said, not the one before.
        scratch = self._scratch / f"process-{len(self._outputs)}"
        scratch.mkdir()
        self._process = launch(scratch, *self._arguments)
        self._outputs.append(self._process.log)
