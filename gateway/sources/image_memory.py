"""Keeps the garbage collector and the release of large images from stopping the event loop.

Both hold the interpreter's lock, also when a thread causes them: a full collection over an image of
60,000 partitions for about 90 ms, the release of its last reference for about 25 ms. It knows no
records.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from kwire.cluster import Image

#: Objects that every full collection may visit: they take about 2 ms.
LOOSE_OBJECTS_MAX: Final = 20_000
#: Records that are freed in one step at most: it takes 3 ms.
_FREED_AT_ONCE_MAX: Final = 10_000
_OLDEST: Final = 2
_SWITCH_S: Final = 0.001
#: A full collection follows 700 * 10 * 3 objects more made than freed (``gc.set_threshold``).
_THRESHOLDS: Final = (700, 10, 3)


class _CollectorPause:
    """Counts the threads that need the collector paused: there is one collector for all threads."""

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


_pause: Final = _CollectorPause()


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector in all threads. Records have no cycles: it would find nothing in
    them.
    """
    _pause.begin()
    try:
        yield
    finally:
        _pause.end()


def freeze() -> None:
    """Exclude all live objects from later collections, if they are too many for one.

    Reference counting still frees them. A cycle among them is never freed: garbage cycles are
    therefore collected first, and nothing is frozen below ``LOOSE_OBJECTS_MAX`` objects. Takes as
    long as a collection over the objects that are not frozen yet.
    """
    gc.collect()
    if len(gc.get_objects()) > LOOSE_OBJECTS_MAX:
        gc.freeze()


def freeze_uncollected() -> None:
    """Exclude all live objects from later collections at once, without a collection: that takes no
    time. A garbage cycle among them is never freed, so the caller collects once before it begins.
    """
    gc.freeze()


def set_aside(records: Sequence[Any]) -> list[Any]:
    """Return a list that is too long to be freed in one step, for :func:`release_incrementally`; no
    elements for any other.

    What was made together with it is excluded from later collections: each of the three that
    objects survive would go through all of it, 40 ms for 200,000 records.
    """
    if not isinstance(records, list) or len(records) <= _FREED_AT_ONCE_MAX:
        return []
    gc.freeze()
    return records


def freeze_survivors() -> None:
    """Exclude what survives a full collection from all later ones, from now on, so that each visits
    only what was made since the one before: some 20,000 objects.

    A full collection over 40 decoded requests that name 9,000 topics each takes 200 ms, and one
    over 10,000 connections 50 ms. As with :func:`freeze`, reference counting still frees what
    survived, and a cycle that becomes garbage later is never freed.
    """
    gc.set_threshold(*_THRESHOLDS)
    if _freeze_if_full not in gc.callbacks:
        gc.callbacks.append(_freeze_if_full)


def hand_over_quickly() -> None:
    """Let a thread that decodes records or writes a snapshot give way to the event loop after 1 ms,
    not 5 ms: a request waits for it several times before its answer is on the way.
    """
    sys.setswitchinterval(_SWITCH_S)


def _freeze_if_full(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == _OLDEST:
        gc.freeze()


def entries(image: Image) -> int:
    """Return the number of entries in the dictionaries of topics, partitions, ACLs and tokens,
    which a collection over a copy of the image would visit.
    """
    topics = image.partitions
    return len(topics) + sum(map(len, topics.values())) + len(image.acls) + len(image.tokens)


@contextlib.contextmanager
def frozen_when_made(size: int) -> Iterator[None]:
    """Exclude what the block makes from later collections, where these would visit ``size`` objects
    and that is too many.

    Making them does not start a collection either: one over the copy of an image of 100,000
    partitions takes 100 ms. Garbage cycles from before are collected first, and the block must make
    none. An exception freezes nothing.
    """
    if size <= LOOSE_OBJECTS_MAX:
        yield
        return
    gc.collect()
    with collector_paused():
        yield
        gc.freeze()


def release_incrementally(retired: list[Any]) -> None:
    """Remove images and parts of them from the list and drop their references one by one, so that
    other threads get turns.

    Objects that have other references stay.
    """
    while retired:
        one = retired.pop()
        rest = _referents(one) if isinstance(one, Image) else []
        del one
        while rest:
            rest.pop()


def _referents(image: Image) -> list[Any]:
    """Return a reference to everything in the image, two levels deep."""
    found: list[Any] = []
    for field in fields(image):
        value = getattr(image, field.name)
        if isinstance(value, dict):
            for one in value.values():
                if isinstance(one, dict):
                    found.extend(one.values())
                found.append(one)  # goes first, when its values are still held
    return found
