"""Carries out work in slices in the task that needs its result, and runs others in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import trio

from gateway.slices import SLICE_S

if TYPE_CHECKING:
    from gateway.slices import Slices

_T = TypeVar("_T")


async def carried_out(work: Slices[_T]) -> _T:
    """Return the result of ``work``. Raises what it raises."""
    ends_at = time.perf_counter() + SLICE_S
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result
        if time.perf_counter() >= ends_at:
            await trio.lowlevel.checkpoint()
            ends_at = time.perf_counter() + SLICE_S
