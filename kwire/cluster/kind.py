"""Defines what there is to know of a kind of entity, and of a type of record about it.

``kwire.cluster.entities`` has a descriptor of each kind. The fold, the snapshot, the tree, the
views and the keys of Spark are made from the descriptors (``MetadataImage``'s parts and their
deltas); this module knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kwire.cluster.field_types import FieldType
from kwire.cluster.image import Image
from kwire.message import Message

#: Identifies an entity within its kind, in the terms of an image.
Key = tuple[Any, ...]
#: An entity as it was at one offset; later changes of the image do not change it.
State = Any
#: The values of the fields that identify an entity, in the order of ``Kind.key_fields``.
Name = tuple[Any, ...]
#: Path of an entity in the tree: the names from the root down.
Place = tuple[str, ...]
#: The fields of an entity, in the order in which Kafka prints them; every value is plain JSON.
Fields = dict[str, Any]


class FoldError(Exception):
    """A record that does not fit the state before it, such as a change to a partition that does not
    exist.
    """


class Field(NamedTuple):
    """A field that is shown: its type, and its value from what it belongs to."""

    type: FieldType
    value: Callable[[Any], Any]


def shown(fields: Mapping[str, Field], one: Any) -> Fields:
    """Return the values of ``fields`` that ``one`` has."""
    return {name: field.value(one) for name, field in fields.items()}


def types_of(fields: Mapping[str, Field]) -> dict[str, FieldType]:
    """Return the types of ``fields``."""
    return {name: field.type for name, field in fields.items()}


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of metadata record.

    ``about`` is the kind of the entity that a record sets, changes or deletes, and ``key`` has the
    record's attributes that identify it. ``change`` applies a record to an image; it raises
    FoldError, and leaves the image unchanged then. ``touched`` yields (kind, key) of the entities
    that a record is about to change, where they are others than the one that ``key`` identifies.
    ``shown_key`` has the attributes that Spark shows as key where they are others than ``key``.
    """

    record: type[Message]
    about: str
    change: Callable[[Image, Any], None]
    key: tuple[str, ...] = ()
    touched: Callable[[Image, Any], Iterator[tuple[str, Key]]] | None = None
    shown_key: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entity.

    In an image: ``keys`` yields all keys, in an order that depends on the state alone, ``find``
    returns the entity of a key, or None if it does not exist, and ``snapshot`` yields (record,
    version) of each entity, for a snapshot. Records about an entity have a part of it each where
    ``member`` is set, the attribute that identifies the part: one config of a resource.

    In a view: ``view`` is the view that has the entities, None if only ``changes`` has them,
    ``name`` returns the name of an entity, ``fields`` its value, without secrets, and ``types`` are
    the types of these fields in version ``version`` of the view.

    In the tree: ``roots`` are the places that exist without an entity, ``tree`` yields each entity
    with its place and its fields, with secrets, and ``redacted`` returns the fields without them.
    """

    kind: str
    records: tuple[RecordType, ...]
    keys: Callable[[Image], Iterator[Key]]
    find: Callable[[Image, Key], State | None]
    snapshot: Callable[[Image], Iterator[tuple[Message, int]]]
    view: str | None
    key_fields: tuple[str, ...]
    name: Callable[[State], Name]
    fields: Callable[[State], Fields]
    types: Mapping[str, FieldType]
    roots: tuple[Place, ...]
    tree: Callable[[Image], Iterator[tuple[Place, Fields]]]
    redacted: Callable[[Place, Fields], Fields] = lambda place, fields: fields
    member: str | None = None
    version: int = 2
