"""Keeps the journal of the writers: a line when an append is sent, a line when it is answered. The
outcome of an append without an answer is unknown.

Each line is one write to an O_APPEND file, so that the journal of a killed run is whole.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Self

from tools.consistency_checker.history import Attempt, Outcome


class Journal:
    """Writes the journal at ``path``; any thread may write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def sent(self, id: int, at: float, node: int) -> None:
        """Record that the append ``id`` is about to be sent to ``node``; ``at`` in seconds of the
        run's clock.
        """
        self._write({"id": id, "sent": at, "node": node})

    def answered(self, id: int, at: float, outcome: Outcome, detail: str = "") -> None:
        """Record its answer."""
        self._write({"id": id, "answered": at, "outcome": outcome.value, "detail": detail})

    def _write(self, line: dict[str, object]) -> None:
        with self._lock:
            os.write(self._file, json.dumps(line).encode() + b"\n")


def read_journal(path: Path) -> list[Attempt]:
    """Return the attempts of a journal in the order in which they were sent. Raises ValueError for
    an invalid line.
    """
    found: dict[int, Attempt] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        id = int(entry["id"])
        if "sent" in entry:
            if id in found:
                raise ValueError(f"append {id} was sent twice, says {path}")
            found[id] = Attempt(id, entry["sent"], node=entry["node"])
        elif id in found:
            outcome = Outcome(entry["outcome"])
            found[id] = Attempt(
                id, found[id].sent, outcome, entry["answered"], found[id].node, entry["detail"]
            )
        else:
            raise ValueError(f"append {id} was answered and never sent, says {path}")
    return list(found.values())
