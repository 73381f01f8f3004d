"""Measures the steps of work in slices by what they do instead of by time."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import FrameType
from typing import Any


def calls_per_step(work: Generator[Any, Any, Any]) -> tuple[Any, int]:
    """The result of ``work``, and the number of calls in its longest step. A count, unlike a time,
    is the same on every machine.
    """
    calls = longest = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    while True:
        calls = 0
        sys.setprofile(count)
        try:
            next(work)
        except StopIteration as end:
            sys.setprofile(None)
            return end.value, max(longest, calls)
        finally:
            sys.setprofile(None)
        longest = max(longest, calls)
