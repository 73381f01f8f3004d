"""Waits until a condition holds. Tests poll here and nowhere else.

A wait ends with the condition. The patience only bounds a test that would never end: it is 60 s
times ``KWIRE_PATIENCE``, far more than a busy machine needs, so that a test which runs out of it
has found a fault. This module does not measure how long anything took.

A condition that raises an ``Exception`` does not hold yet. Call ``pytest.fail`` in one that cannot
hold any more, for example as the process that should fulfil it has ended: it ends the wait at once.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar, overload

import trio

from tools.process import PATIENCE_S as PATIENCE_S

#: The first pause between two looks, the factor to each next one, and the longest pause, s.
_PAUSE_S, _LONGER, _PAUSE_MAX_S = 0.001, 1.3, 0.1

T = TypeVar("T")


def until(condition: Callable[[], T], what: str = "", holds: Callable[[T], object] = bool) -> T:
    """Return the value of ``condition`` once ``holds`` accepts it, by default once it is true.

    ``what`` names in the failure what did not come, by default the text of the condition. Raises
    AssertionError after the patience.
    """
    pauses = _Pauses(what or condition)
    while True:
        try:
            last: Any = condition()
            if holds(last):
                return last
        except Exception as error:
            last = error
        time.sleep(pauses.next(last))


@overload
async def until_async(
    condition: Callable[[], Awaitable[T]], what: str = ..., holds: Callable[[T], object] = ...
) -> T: ...
@overload
async def until_async(
    condition: Callable[[], T], what: str = ..., holds: Callable[[T], object] = ...
) -> T: ...
async def until_async(
    condition: Callable[[], Any], what: str = "", holds: Callable[[Any], object] = bool
) -> Any:
    """Do as :func:`until`, in trio's loop. ``condition`` may be asynchronous.

    The pauses are those of trio's clock, which may be a mock clock that flows. The patience is real
    time.
    """
    pauses = _Pauses(what or condition)
    while True:
        try:
            last = condition()
            if isinstance(last, Awaitable):
                last = await last
            if holds(last):
                return last
        except Exception as error:
            last = error
        await trio.sleep(pauses.next(last))


class _Pauses:
    """The pauses between the looks at a condition, until the patience is over."""

    def __init__(self, what: str | Callable[[], Any]) -> None:
        self._what, self._pause_s = what, _PAUSE_S
        self._ends_at = time.monotonic() + PATIENCE_S

    def next(self, last: object) -> float:
        """The next pause, s. ``last`` is the value or exception of the look before it."""
        if time.monotonic() > self._ends_at:
            self._give_up(last)
        pause_s = self._pause_s
        self._pause_s = min(_PAUSE_MAX_S, pause_s * _LONGER)
        return pause_s

    def _give_up(self, last: object) -> NoReturn:
        what = self._what if isinstance(self._what, str) else _source(self._what)
        text = f"{what}: not within {PATIENCE_S:g} s (KWIRE_PATIENCE), last: {last!r:.2000}"
        raise AssertionError(text) from (last if isinstance(last, Exception) else None)


def _source(condition: Callable[[], Any]) -> str:
    """The text of ``condition`` in its file, whole lines."""
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):
        return repr(condition)
