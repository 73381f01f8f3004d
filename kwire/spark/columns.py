"""Maps a metadata record type to a column: its Spark type, its Arrow type, and the values from
messages.

Names are those of Kafka's JSON form (``topicId``). A field that the record's version lacks is null,
which is not the same as its default. Knows nothing of DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from kwire.message import FieldInfo, Struct

#: Kafka's type -> Spark's and Arrow's; the unsigned ones take the next wider, uuids their text.
_TYPES: dict[str, tuple[str, pa.DataType]] = {
    "bool": ("boolean", pa.bool_()),
    "int8": ("tinyint", pa.int8()),
    "int16": ("smallint", pa.int16()),
    "uint16": ("int", pa.int32()),
    "int32": ("int", pa.int32()),
    "uint32": ("bigint", pa.int64()),
    "int64": ("bigint", pa.int64()),
    "float64": ("double", pa.float64()),
    "string": ("string", pa.string()),
    "uuid": ("string", pa.string()),
    "bytes": ("binary", pa.binary()),
    "records": ("binary", pa.binary()),
}

Row = dict[str, Any]


def spark_type(cls: type[Struct]) -> str:
    """The struct type of ``cls`` in Spark's DDL, every version's fields in it."""
    return f"struct<{', '.join(f'`{f.json}`: {_spark_field(cls, f)}' for f in cls.fields())}>"


def _spark_field(cls: type[Struct], f: FieldInfo) -> str:
    one = spark_type(cls.struct_class(f.type)) if f.is_struct else _TYPES[f.type][0]
    return f"array<{one}>" if f.array else one


def arrow_type(cls: type[Struct]) -> pa.DataType:
    """The same as an Arrow type."""
    return pa.struct([(f.json, _arrow_field(cls, f)) for f in cls.fields()])


def _arrow_field(cls: type[Struct], f: FieldInfo) -> pa.DataType:
    one = arrow_type(cls.struct_class(f.type)) if f.is_struct else _TYPES[f.type][1]
    return pa.list_(one) if f.array else one


def row_maker(cls: type[Struct], version: int) -> Callable[[Struct], Row]:
    """A function that makes the value of ``arrow_type(cls)`` from a message read at ``version``."""
    getters = [(f.json, f.attr, _converter(cls, f, version)) for f in cls.fields() if f.at(version)]

    def make(message: Struct) -> Row:
        row: Row = {}
        for name, attr, convert in getters:
            value = getattr(message, attr)
            row[name] = value if convert is None or value is None else convert(value)
        return row

    return make


def _converter(cls: type[Struct], f: FieldInfo, version: int) -> Callable[[Any], Any] | None:
    one: Callable[[Any], Any] | None = None
    if f.is_struct:
        one = row_maker(cls.struct_class(f.type), version)
    elif f.type == "uuid":
        one = str
    if not f.array or one is None:
        return one
    each = one
    return lambda values: [each(value) for value in values]
