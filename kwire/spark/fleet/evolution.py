"""Finds what a later kwire has in its views and a table lacks: columns, and members of structs
inside arrays, maps and other structs. It looks at types only, and changes no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


class Lacking(NamedTuple):
    """A column or member: the names that lead to it, its type in Spark's DDL, and the name of the
    one before it, which is None for the first.
    """

    path: tuple[str, ...]
    type: str
    after: str | None


def lacking(have: StructType, wanted: StructType, of: tuple[str, ...] = ()) -> Iterator[Lacking]:
    """Yield what ``have`` lacks of ``wanted``, in an order in which it can be added. ``of`` leads
    to both. Names differ by more than case.
    """
    known = {one.name.lower(): one.dataType for one in have.fields}
    after = None
    for one in wanted.fields:
        path = (*of, one.name)
        if one.name.lower() in known:
            yield from _within(known[one.name.lower()], one.dataType, path)
        else:
            yield Lacking(path, one.dataType.simpleString(), after)
        after = one.name


def _within(have: DataType, wanted: DataType, path: tuple[str, ...]) -> Iterator[Lacking]:
    match have, wanted:
        case StructType(), StructType():
            yield from lacking(have, wanted, path)
        case ArrayType(), ArrayType():
            yield from _within(have.elementType, wanted.elementType, (*path, "element"))
        case MapType(), MapType():
            yield from _within(have.valueType, wanted.valueType, (*path, "value"))
