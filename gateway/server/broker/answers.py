"""Waits for the answer of a partition, which it gives to a callback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

_T = TypeVar("_T")


async def answer(ask: Callable[[Callable[[_T], None]], None]) -> _T:
    """Return what ``ask`` calls its argument with."""
    done = trio.Event()
    answers: list[_T] = []

    def take(one: _T) -> None:
        answers.append(one)
        done.set()

    ask(take)
    await done.wait()
    return answers[0]
