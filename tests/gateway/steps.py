"""Measures work, and its steps where it is cut into slices, by what it does instead of by time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class SpentTime:
    """Stands for the module ``time`` of a scheduler: only the work that it resumes takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(f"{module}.time", self)

    def spend(self, seconds: float) -> None:
        self.now_s += seconds

    def perf_counter(self) -> float:
        return self.now_s


def calls_of(function: Callable[[], T]) -> tuple[T, int]:
    """The result of ``function``, and the number of calls that it makes."""

    def work() -> Generator[None, None, T]:
        return function()
        yield

    return calls_per_step(work())


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
