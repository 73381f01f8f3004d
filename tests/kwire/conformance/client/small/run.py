"""Runs a small client, as a program or in a thread of the tests.

A thread costs a hundredth of a process, of which every rule starts one. :class:`Threaded` has the
methods of ``kwire.conformance.client.program.Running``.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

from tests.kwire.conformance.client.small.consumer import Consumer
from tests.kwire.conformance.client.small.life import Ended, Life, Stopped
from tests.kwire.conformance.client.small.member import Member
from tests.kwire.conformance.client.small.node import Lost
from tests.kwire.conformance.client.small.producer import Producer
from tests.waiting import PATIENCE_S

#: A program has so long to end by itself, as in ``Running``, s.
_TERMINATE_S: Final = 3.0


def run(life: Life, kind: str, bootstrap: str, topic: str) -> int:
    """Run a client to its end, and return its exit status."""
    client = {"consumer": Consumer, "sasl": Consumer, "member": Member, "producer": Producer}[kind]
    try:
        client(life, bootstrap, topic, has_sasl=kind == "sasl").run()
    except Ended as ended:
        return ended.status
    except Stopped:
        pass
    return 0


class Threaded:
    """A client in a thread, by the words of its command; see :mod:`.small`."""

    def __init__(self, words: Sequence[str]) -> None:
        self._output: list[str] = []
        self._error = ""
        self._status: int | None = None
        self._stopped = False
        kind, fault, bootstrap, topic = words[-4:]
        self._life = Life(fault, self._output.append)
        self._thread = threading.Thread(
            target=self._run, args=(kind, bootstrap, topic), daemon=True
        )
        self._thread.start()

    def _run(self, kind: str, bootstrap: str, topic: str) -> None:
        try:
            status = run(self._life, kind, bootstrap, topic)
        except (Lost, OSError) as error:
            status, self._error = (0 if self._stopped else 1), repr(error)
        except Exception as error:
            status, self._error = 1, "".join(traceback.format_exception(error))
        self._life.cut()
        self._status = status

    @property
    def status(self) -> int | None:
        """The exit status; None while the client runs, and if ``stop`` ended it."""
        return None if self._stopped else self._status

    def output(self) -> bytes:
        """The lines so far."""
        return "".join(f"{line}\n" for line in list(self._output)).encode()

    def last_error(self) -> str:
        """The last line of the exception that ended the client."""
        return self._error.strip().rpartition("\n")[2]

    def texts(self) -> Mapping[str, str]:
        """Exit status and output, for a report."""
        return {"exit status": str(self.status), "stderr": self._error}

    def stop(self) -> None:
        """End the client; cut its connections if it does not."""
        if self._thread.is_alive():
            self._stopped = True
            self._life.stop()
            self._thread.join(_TERMINATE_S if self._life.has("none", "stays-in-group") else 0.2)
        self._life.cut()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the client does not end"
