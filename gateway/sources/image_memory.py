"""Images are large: making and dropping one in a thread must not stop the event loop beside it. Knows no record.

Both hold the interpreter's lock: a full pass of the garbage collector over an image of 60,000 partitions for some 90 ms,
the end of its last reference for some 25 ms.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

from kwire.cluster import Image


class _Pause:
    """Who has the collector paused at the moment: it is one for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if self._holders == 0:
                self._was_enabled = gc.isenabled()
            self._holders += 1
            gc.disable()

    def end(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0 and self._was_enabled:
                gc.enable()


_pause: Final = _Pause()


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """No pass of the garbage collector meanwhile, in any thread. Records have no cycles: it would find nothing in them."""
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


def let_stay() -> None:
    """Everything that is alive now is left out of later passes of the collector; without its last reference it still goes."""
    gc.freeze()


def let_go(retired: list[Any]) -> None:
    """Take images and parts of them out of the list and end their references one by one, so that other threads get turns.

    What somebody else holds stays whole.
    """
    while retired:
        one = retired.pop()
        rest = _things_in(one) if isinstance(one, Image) else []
        del one
        while rest:
            rest.pop()


def _things_in(image: Image) -> list[Any]:
    """A reference to everything in the image, two levels deep."""
    things: list[Any] = []
    for field in fields(image):
        value = getattr(image, field.name)
        if isinstance(value, dict):
            for one in value.values():
                if isinstance(one, dict):
                    things.extend(one.values())
                things.append(one)  # goes first, when its values are still held
    return things
