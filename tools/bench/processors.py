"""Puts the clients and the servers of a bench on different processors, where there is more than one
(Linux).

On one processor a client's threads share its caches instead of competing for them, which can double
a pass's time, and no server takes time from it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def pin_processors(*servers: int) -> Iterator[None]:
    """Run this process and its new children on the first processor, the ``servers`` (process ids)
    on the second.

    With only one processor, or no way to choose, this does nothing. Afterwards this process may use
    all that it could before.
    """
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(allowed) < 2:
        yield
        return
    for pid in servers:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {allowed[1]})
    os.sched_setaffinity(0, {allowed[0]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(allowed))
