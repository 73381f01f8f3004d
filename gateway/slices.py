"""Cuts long work into slices, so that the event loop runs other tasks in between.

Work in slices is a generator that yields wherever it may be interrupted, at least every
millisecond, and returns its result. The server resumes it until a slice has taken long enough
(``gateway.server.event_queue``); nothing here knows a clock.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")

Slices = Generator[None, None, _T]


def run(work: Slices[_T]) -> _T:
    """The result of ``work``, without an interruption."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: _T = end.value
            return result


def pieces(elements: Iterable[_T], size: int) -> Iterator[list[_T]]:
    """``elements`` in lists of ``size``, the last of which may be shorter."""
    piece: list[_T] = []
    for element in elements:
        piece.append(element)
        if len(piece) == size:
            yield piece
            piece = []
    if piece:
        yield piece
