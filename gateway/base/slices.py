"""Cuts long work into slices, so that the event loop runs other tasks in between.

Work in slices is a generator that yields wherever it may be interrupted, at least every
millisecond, and returns its result. The server resumes it for the time of a slice
(``gateway.server.scheduling.sliced_executor``, ``work_scheduler``); nothing here reads a
clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    _S = TypeVar("_S", bound=SupportsRichComparison)

_T = TypeVar("_T")
#: Elements that are sorted in one step: about 0.5 ms.
_SORTED_STEP: Final = 2000
#: How long one slice takes in the server, s. Its last step may end later: the code that
#: does the work bounds the steps.
SLICE_S: Final = 0.005

Slices = Generator[None, None, _T]


def run(work: Slices[_T]) -> _T:
    """Carry out ``work`` without an interruption, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result


def pieces(elements: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """Yield ``elements`` in lists of ``size``, the last of which may be shorter."""
    piece: list[_T] = []
    for element in elements:
        piece.append(element)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece


def in_order(elements: Iterable[_S]) -> Slices[Iterator[_S]]:
    """Sort ``elements``, which are copied in one step, and return an iterator over them."""
    runs: list[list[Any]] = []
    for piece in pieces(list(elements), _SORTED_STEP):
        runs.append(sorted(piece))
        yield
    return heapq.merge(*runs)
