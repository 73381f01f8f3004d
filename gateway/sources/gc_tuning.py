"""Keeps the garbage collector and the release of large images from stopping the event loop.

Both hold the interpreter's lock, also when a thread causes them: a full collection over an image of
60,000 partitions for about 90 ms, the release of its last reference for about 25 ms. So objects
that live long are frozen: full collections do not visit them. Frozen objects are a generation of
their own, which is collected when memory has grown by a quarter, as CPython decides for its oldest
generation; a reference cycle among them is garbage until then, and no longer. Growth by new entries
of the image does not count: they are no garbage. It knows no records.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
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
#: Frozen objects are collected when so many blocks of memory were added since they last were, or a
#: quarter of all blocks if that is more: each takes some 100 bytes.
GROWTH_MIN: Final = 200_000
_GROWTH_FRACTION: Final = 4
#: Records or changes of a fold after which what they hold is frozen: a full collection over so
#: many takes some ms.
_LOOSE_MAX: Final = 2000
#: Blocks of memory for each new entry of the image: 3 were measured for a partition that was just
#: created, and changes of its replicas and ISR give it lists of its own.
_BLOCKS_PER_ENTRY: Final = 8


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


class _FrozenGeneration:
    """Freezes what survives full collections, and has everything collected when memory has grown.

    Blocks of memory stand for objects: the interpreter knows their number, and to count the objects
    of a large image takes as long as a tenth of a collection.
    """

    def __init__(self) -> None:
        self._due_at = 0  # blocks
        self._image, self._entries = Image(), 0  # the served image; its entries when last counted
        self._soon: Callable[[Callable[[], None]], object] | None = None  # None: asked already

    def begin(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """Call ``soon`` with the function that collects everything, when it is due."""
        self._soon = soon
        self.expect_growth()
        if self._full_collection not in gc.callbacks:
            gc.callbacks.append(self._full_collection)

    def expect_growth(self) -> None:
        """Count the growth up to now as objects that stay."""
        self._due_at = _more(sys.getallocatedblocks())

    def image_loaded(self, image: Image) -> None:
        """Count ``image``, and from now on its new entries, as objects that stay."""
        self._image, self._entries = image, entries(image)
        self.expect_growth()

    def _full_collection(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] != _OLDEST:
            return
        gc.freeze()
        blocks = sys.getallocatedblocks()
        if blocks > self._due_at:
            before, self._entries = self._entries, entries(self._image)
            self._due_at += _BLOCKS_PER_ENTRY * max(0, self._entries - before)
        if blocks > self._due_at and self._soon is not None:
            # Not here: the collector begins no collection inside of another one.
            soon, self._soon = self._soon, None
            soon(lambda: self._collect(soon))
        self._due_at = min(self._due_at, _more(blocks))  # after less memory, less growth is enough

    def _collect(self, soon: Callable[[Callable[[], None]], object]) -> None:
        gc.unfreeze()
        gc.collect()
        # Over nothing: the collector begins the next full one by itself when a quarter as many
        # objects are new as the last one visited.
        gc.collect()
        self.image_loaded(self._image)
        self._soon = soon


def _more(blocks: int) -> int:
    return blocks + max(GROWTH_MIN, blocks // _GROWTH_FRACTION)


_frozen: Final = _FrozenGeneration()


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
    """Freeze all live objects, if they are too many for one collection.

    Reference counting still frees them, a cycle among them stays until frozen objects are collected
    (:func:`freeze_survivors`): garbage cycles are therefore collected first, and nothing is frozen
    below ``LOOSE_OBJECTS_MAX`` objects. Takes as long as a collection over the objects that are not
    frozen yet.
    """
    gc.collect()
    if len(gc.get_objects()) > LOOSE_OBJECTS_MAX:
        gc.freeze()


def freeze_uncollected() -> None:
    """Freeze all live objects at once, without a collection: that takes no time. For an image under
    construction, whose objects stay.
    """
    gc.freeze()
    _frozen.expect_growth()


class FoldedObjects:
    """Freezes what a fold of the log makes, in the thread that folds."""

    def __init__(self) -> None:
        self._loose = 0  # records or changes since objects were frozen

    def made(self, count: int, *, is_building: bool) -> None:
        """Freeze what a step made of ``count`` records or changes.

        A fold that ``is_building`` has not been at the end of the log yet. Its objects stay and are
        frozen at once: a collection at every step would take as long as half of the decoding, and
        records have no cycles. Later a collection comes first, after some thousand of them.
        """
        if is_building:
            freeze_uncollected()
            return
        self._loose += count
        if self._loose >= _LOOSE_MAX:
            self._loose = 0
            freeze()


def image_loaded(image: Image) -> None:
    """Keep ``image`` as the one that is served: what it consists of, and what its later entries
    take, is memory that stays.
    """
    _frozen.image_loaded(image)


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


def freeze_survivors(soon: Callable[[Callable[[], None]], object]) -> None:
    """Freeze what survives a full collection, from now on, so that each visits only what was made
    since the one before: some 20,000 objects.

    A full collection over 40 decoded requests that name 9,000 topics each takes 200 ms, and one
    over 10,000 connections 50 ms. When memory has grown by a quarter, ``soon`` is called, in any
    thread, with a function that collects frozen objects, too; it must be run soon, once, in a step
    of its own. That takes 0.2 s with an image of 100,000 partitions.
    """
    gc.set_threshold(*_THRESHOLDS)
    _frozen.begin(soon)


def hand_over_quickly() -> None:
    """Let a thread that decodes records or writes a snapshot give way to the event loop after 1 ms,
    not 5 ms: a request waits for it several times before its answer is on the way.
    """
    sys.setswitchinterval(_SWITCH_S)


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
        _frozen.expect_growth()


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
