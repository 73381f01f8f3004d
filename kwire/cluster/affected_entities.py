"""Finds the entities that a record is about to change in an image, dependent ones included. It
changes nothing.

An entity is named by its kind and by its key among those of its kind, in the terms of the image; a
record about a part of an entity, such as one config, has the name of the part behind the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kwire.cluster.entities import KINDS
from kwire.cluster.image import Image
from kwire.cluster.kind import Key, Kind, RecordType
from kwire.message import Message

_Entities = Callable[[Image, Any], Iterator[tuple[str, Key]]]


def affected_entities(image: Image, record: Message) -> Iterator[tuple[str, Key]]:
    """Yield (kind, key) of each entity that ``record`` sets, patches or deletes if it is applied to
    ``image``; none for a record that changes nothing.

    The order depends on the state alone, and not on the records that led to it.
    """
    entities = _TOUCHED.get(record.NAME)
    return iter(()) if entities is None else entities(image, record)


def _identified(kind: Kind, row: RecordType) -> _Entities:
    """Return a function that yields the one entity that the record's attributes identify."""
    attributes = row.key if kind.member is None else (*row.key, kind.member)

    def entities(image: Image, record: Any) -> Iterator[tuple[str, Key]]:
        yield kind.kind, tuple(getattr(record, name) for name in attributes)

    return entities


_TOUCHED: Final[dict[str, _Entities]] = {
    row.record.NAME: row.touched or _identified(kind, row) for kind in KINDS for row in kind.records
}
