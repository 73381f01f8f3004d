"""Which processors the clients and the servers of a bench run on: apart, where there is more than
one (Linux).

On one processor a client's own threads do not fight over it with each other's caches, which can
double its time from one pass to the next, and no server takes time from it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def apart(*servers: int) -> Iterator[None]:
    """This process and the children that it starts on the first processor, the ``servers`` (process
    ids) on the second.

    Nothing is done where there is only one, or no way to choose. This process may use all that it
    could before, afterwards.
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
