"""Collects changes to an image beside it, and commits them in one step (``MetadataDelta``). It does
not know any record.

Folding takes microseconds a record, so a large batch or transaction takes longer than a server's
event loop may be held. A delta is folded elsewhere while readers keep seeing the image as it was;
``commit`` then costs a dictionary's update.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

from kwire.cluster.image import Image

K = TypeVar("K")
V = TypeVar("V")

#: The mappings of an image. All else in it is a number, or not part of the state.
_MAPS: Final = tuple(one.name for one in fields(Image) if one.default_factory is dict)


class Delta:
    """Changes to ``base``. ``image`` is ``base`` with the changes applied: fold records into it,
    and do not keep it.

    The caller does not change ``base`` between the making of a delta and its commit.
    """

    def __init__(self, base: Image) -> None:
        self._base = base
        layers: dict[str, Any] = {name: OverlayDict(getattr(base, name)) for name in _MAPS}
        self.image = Image(
            next_offset=base.next_offset,
            epoch=base.epoch,
            next_producer_id=base.next_producer_id,
            **layers,
        )

    def changes(self, name: str) -> bool:
        """True if the mapping of that name has changes."""
        return bool(cast(OverlayDict[Any, Any], getattr(self.image, name)).is_changed)

    def changed_keys(self, name: str) -> list[Any]:
        """Return the keys of the mapping of that name that were set or removed."""
        return cast(OverlayDict[Any, Any], getattr(self.image, name)).changed_keys()

    def changed_topics(self) -> list[str]:
        """Return the names of the topics that were created, deleted or changed, once this is
        committed.
        """
        topics = self._base.topics
        changed = (topics[id] for id in self.changed_keys("partitions") if id in topics)
        return list(dict.fromkeys((*self.changed_keys("topic_ids"), *changed)))

    def peeked(self, name: str) -> Mapping[Any, Any]:
        """Return a view of the mapping of that name with its changes, to read: unlike that of
        ``image`` it copies nothing, and reading is no change.
        """
        return Peeked(cast(OverlayDict[Any, Any], getattr(self.image, name)))

    def commit(self) -> list[Any]:
        """Apply the changes to ``base``. The delta then only tells what was changed.

        Return the replaced values. Freeing them takes longer than the commit, so the caller may do
        that in a thread.
        """
        base, image = self._base, self.image
        replaced: list[Any] = []
        for name in _MAPS:
            cast(OverlayDict[Any, Any], getattr(image, name)).commit(replaced)
        base.next_offset, base.epoch, base.next_producer_id = (
            image.next_offset,
            image.epoch,
            image.next_producer_id,
        )
        return replaced


class Peeked(Mapping[K, V]):
    """A mapping with its changes, to read only."""

    def __init__(self, layer: OverlayDict[K, V]) -> None:
        self._layer = layer

    def __getitem__(self, key: K) -> V:
        return self._layer.peek(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._layer)

    def __len__(self) -> int:
        return len(self._layer)


class OverlayDict(MutableMapping[K, V]):
    """A mapping with changes on top of ``below``. It copies a dictionary among its values before a
    reader gets it.
    """

    __slots__ = ("_below", "_gone", "_top")

    def __init__(self, below: dict[K, V]) -> None:
        self._below = below
        self._top: dict[K, V] = {}
        self._gone: set[K] = set()

    @property
    def is_changed(self) -> bool:
        """True if a key was set or removed."""
        return bool(self._top or self._gone)

    def changed_keys(self) -> list[K]:
        """The keys that were set (or whose dictionaries were read) or removed."""
        return [*self._top, *self._gone]

    def peek(self, key: K) -> V:
        """Return the value of ``key``, not to be changed. Raises KeyError."""
        if key in self._top:
            return self._top[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def commit(self, replaced: list[Any]) -> None:
        """Apply the changes to ``below``, and add the replaced values to ``replaced``."""
        below = self._below
        replaced.extend(below.pop(key) for key in self._gone)
        replaced.extend(map(below.get, self._top))
        below.update(self._top)

    def __getitem__(self, key: K) -> V:
        try:
            return self._top[key]
        except KeyError:
            if key in self._gone:
                raise
        value = self._below[key]
        if isinstance(value, dict):
            value = self._top[key] = cast(V, value.copy())
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._top[key] = value
        self._gone.discard(key)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._top.pop(key, None)
        if key in self._below:
            self._gone.add(key)

    def __contains__(self, key: object) -> bool:
        return key in self._top or (key in self._below and key not in self._gone)

    def __iter__(self) -> Iterator[K]:
        for key in self._below:
            if key not in self._gone:
                yield key
        for key in self._top:
            if key not in self._below:
                yield key

    def __len__(self) -> int:
        return len(self._below) - len(self._gone) + sum(key not in self._below for key in self._top)
