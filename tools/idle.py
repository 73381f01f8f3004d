"""Lets work run on a processor that nothing else wants."""

from __future__ import annotations

import os
import sys


def run_when_idle() -> None:
    """Give the calling thread, and the processes that it starts, the processor time that no other
    process wants. Tests that measure waits run undisturbed beside it. Linux alone knows such a
    priority of one thread: elsewhere nothing changes.
    """
    if sys.platform == "linux":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
