"""Measures work, and its steps where it is cut into slices, by what it does instead of by time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class SpentTime:
    """Stands for the module ``time`` in schedulers: only the work that they resume takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self.now_s = 0.0
        for module in modules:
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


def lines_run(function: Callable[[], object]) -> int:
    """The number of lines of Python that ``function`` runs, in loops each time."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    try:
        function()
    finally:
        sys.settrace(None)
    return lines


class Compared(str):
    """A string that counts in ``comparisons`` how often it was compared for equality."""

    comparisons = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.comparisons += 1
        return str.__eq__(self, other)


@contextlib.contextmanager
def comparisons_max(most: int) -> Iterator[None]:
    """Fail if the block compares strings of type :class:`Compared` more often."""
    Compared.comparisons = 0
    yield
    assert Compared.comparisons <= most
