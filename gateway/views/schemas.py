"""Shows the fields of every view as JSON Schema, as a schema of Kafka
Connect (``JsonConverter`` with ``schemas.enable``), and as columns of Spark (``from_json``).

``json_schema`` is JSON Schema 2020-12; ``connect_schema`` the object that Connect expects beside
the payload; ``spark_schema`` a list of columns in Spark's DDL. It reads no records.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gateway.ports.view_topics import CHANGES, VIEWS, view_topic
from kwire.cluster.entities import KINDS
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
from kwire.cluster.spark_types import spark_type
from kwire.cluster.view_records import (
    CHANGE,
    CLUSTER_ID_HEADER,
    COMPLETE_HEADER,
    SNAPSHOT_HEADER,
)

_JSON_TYPES: Final = {
    STRING: "string",
    INT32: "integer",
    INT64: "integer",
    BOOLEAN: "boolean",
    DOUBLE: "number",
    ENTITY: "object",
}
#: The members of a view's values.
VALUES: Final[Mapping[str, Struct]] = MappingProxyType(
    {CHANGES: Struct(CHANGE)}
    | {kind.view: Struct(kind.types) for kind in KINDS if kind.view is not None}
)
assert set(VALUES) == set(VIEWS)
#: Versions of the views. A higher one has more members of values, headers or kinds of changes, and
#: all that the lower ones have.
_VERSIONS: Final[Mapping[str | None, int]] = {
    CHANGES: 2,
    **{kind.view: kind.version for kind in KINDS},
}
#: Names of the members of a view's keys; of ``changes`` the key has those of the entity's kind,
#: behind ``kind``.
KEY_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {CHANGES: ("kind",)} | {kind.view: kind.key_fields for kind in KINDS if kind.view is not None}
)

_ABSENT: Final = {STRING: "", INT32: -1}


def absent_key(view: str) -> dict[str, Any]:
    """Return the key of a view of entities that no entity has."""
    fields = key_struct(view).fields.items()
    return {name: _ABSENT[one] for name, one in fields if isinstance(one, str)}


def key_struct(view: str) -> Struct:
    """Return the members of the keys of ``view``; of ``changes`` those that all keys have."""
    fields = VALUES[view].fields
    return Struct({name: fields[name] for name in KEY_FIELDS[view]})


def json_schema(view: str, *, key: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of the values of ``view``, or of its keys."""
    part = "key" if key else "value"
    found = _json(key_struct(view) if key else VALUES[view])
    if key and view == CHANGES:
        found["additionalProperties"] = True  # the members that name the entity
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{part} of {view_topic(view)}",
        **_version(view, key),
        **found,
    }


def _version(view: str, key: bool) -> dict[str, int]:
    return {} if key else {"version": _VERSIONS[view]}


def _json(type_: FieldType) -> dict[str, Any]:
    match type_:
        case Nullable(inner):
            found = _json(inner)
            return found | {"type": [found["type"], "null"]}
        case ListOf(items):
            return {"type": "array", "items": _json(items)}
        case MapOf(values):
            return {"type": "object", "additionalProperties": _json(values)}
        case Struct(fields):
            return {
                "type": "object",
                "properties": {name: _json(one) for name, one in fields.items()},
                "required": list(fields),
                "additionalProperties": False,
            }
        case str():
            found = {"type": _JSON_TYPES[type_]}
            return found | {"format": type_} if type_ in (INT32, INT64) else found


def connect_schema(view: str, *, key: bool = False) -> dict[str, Any]:
    """Return Connect's schema of the values of ``view``, or of its keys.

    Connect has no objects of several shapes: entities in ``changes`` are text, the JSON of the
    object, and so is its key.
    """
    if key and view == CHANGES:
        return {"type": STRING, "optional": False}
    named = {"name": _connect_name(view, key)} | _version(view, key)
    return _connect(key_struct(view) if key else VALUES[view]) | named


def _connect_name(view: str, key: bool) -> str:
    return f"{view_topic(view)}.{'Key' if key else 'Value'}"


def _connect(type_: FieldType, *, optional: bool = False) -> dict[str, Any]:
    match type_:
        case Nullable(inner):
            return _connect(inner, optional=True)
        case ListOf(items):
            return {"type": "array", "items": _connect(items), "optional": optional}
        case MapOf(values):
            text = {"type": STRING, "optional": False}
            return {"type": "map", "keys": text, "values": _connect(values), "optional": optional}
        case Struct(fields):
            members = [{"field": name, **_connect(one)} for name, one in fields.items()]
            return {"type": "struct", "fields": members, "optional": optional}
        case str():
            return {"type": STRING if type_ == ENTITY else type_, "optional": optional}


def headers_schema(view: str) -> dict[str, Any]:
    """Return the JSON Schema of the headers of the records of ``view``, by name; all are text."""

    def text(about: str, pattern: str) -> dict[str, str]:
        return {"type": "string", "description": about, "pattern": pattern}

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"headers of {view_topic(view)}",
        "version": _VERSIONS[view],
        "type": "object",
        "properties": {
            CLUSTER_ID_HEADER: text("the id of the cluster", "^.+$"),
            SNAPSHOT_HEADER: text(
                "of a record of a snapshot: the offset at which that ends in __cluster_metadata,"
                " and its epoch",
                "^[0-9]+-[0-9]+$",
            ),
            COMPLETE_HEADER: text(
                "of the last record of a snapshot: the first offset of its records; entities whose"
                " last record is below that are gone",
                "^[0-9]+$",
            ),
        },
        "required": [CLUSTER_ID_HEADER],
        "additionalProperties": False,
    }


def spark_schema(view: str, *, key: bool = False) -> str:
    """Return the columns of the values of ``view``, or of its keys, as ``from_json`` of Spark takes
    them.

    Spark has no objects of several shapes: entities in ``changes`` are text, the JSON of the
    object. ``from_json`` with the columns of the entity's own view reads it.
    """
    struct = key_struct(view) if key else VALUES[view]
    return ", ".join(f"`{name}` {spark_type(one)}" for name, one in struct.fields.items())


def spark_schemas() -> dict[str, dict[str, Any]]:
    """Return, by view, the ``topic``, the names of the ``keys``, and the columns of ``key`` and
    ``value`` for ``from_json`` of Spark.
    """
    return {
        view: {
            "topic": view_topic(view),
            "keys": list(KEY_FIELDS[view]),
            "key": spark_schema(view, key=True),
            "value": spark_schema(view),
        }
        for view in VIEWS
    }


def published_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of every view, by topic: JSON Schema of ``key``, ``value`` and
    ``headers``, and the columns of the value for Spark.
    """
    return {
        view_topic(view): {
            "key": json_schema(view, key=True),
            "value": json_schema(view),
            "headers": headers_schema(view),
            "spark": spark_schema(view),
        }
        for view in VIEWS
    }
