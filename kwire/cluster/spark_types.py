"""Writes the types of fields as Spark's DDL has them, for ``from_json`` and for tables. It imports
no Spark.
"""

from __future__ import annotations

from typing import Final

from kwire.cluster.field_types import (
    BOOLEAN,
    DOUBLE,
    ENTITY,
    INT32,
    INT64,
    STRING,
    FieldType,
    ListOf,
    MapOf,
    Nullable,
    Struct,
)

_PLAIN: Final = {
    STRING: "STRING",
    INT32: "INT",
    INT64: "BIGINT",
    BOOLEAN: "BOOLEAN",
    DOUBLE: "DOUBLE",
    ENTITY: "STRING",
}


def spark_type(type_: FieldType) -> str:
    """Return the type in Spark's DDL. Every column may be null there, and an entity is text, the
    JSON of the object, because Spark has no objects of several shapes.
    """
    match type_:
        case Nullable(inner):
            return spark_type(inner)
        case ListOf(items):
            return f"ARRAY<{spark_type(items)}>"
        case MapOf(values):
            return f"MAP<STRING, {spark_type(values)}>"
        case Struct(fields):
            members = (f"`{name}`: {spark_type(one)}" for name, one in fields.items())
            return f"STRUCT<{', '.join(members)}>"
        case str():
            return _PLAIN[type_]
