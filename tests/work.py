"""Counts the work of a call: the begins and ends of calls of functions and generators, of Python or
built in. The count is the same on every machine. Loops that call nothing are not in it.
"""

from __future__ import annotations

import cProfile
import itertools
from collections.abc import Callable


def counting(now: Callable[[], int]) -> cProfile.Profile:
    """A profiler that calls ``now`` at each begin and end of a call."""
    return cProfile.Profile(now, 1.0, subcalls=False)


def work(call: Callable[[], object]) -> int:
    """The units of work of ``call``."""
    now = itertools.count().__next__
    counting(now).runcall(call)
    return now()
