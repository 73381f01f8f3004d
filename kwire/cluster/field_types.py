"""Defines the types of the fields of entities, from which schemas are made.

It knows no schema language: ``gateway.views.schemas`` writes JSON Schema and Kafka Connect's
schemas, ``kwire.cluster.spark_types`` Spark's columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The types of plain values: Connect's names, ``entity`` for an object of any view.
STRING, INT32, INT64, BOOLEAN, DOUBLE, ENTITY = (
    "string",
    "int32",
    "int64",
    "boolean",
    "double",
    "entity",
)


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array."""

    items: FieldType


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose member names are data."""

    values: FieldType


@dataclass(frozen=True, slots=True)
class Struct:
    """An object that always has all of these members."""

    fields: Mapping[str, FieldType]


@dataclass(frozen=True, slots=True)
class Nullable:
    """A value that may be null."""

    type: FieldType


FieldType = str | ListOf | MapOf | Struct | Nullable

INTS: Final = ListOf(INT32)
TEXTS: Final = ListOf(STRING)
