"""Converts messages to JSON values and back, in the form of Kafka's JsonConverter classes.

Names start with a small letter, bytes are base64, uuids Kafka's 22 characters, non-finite numbers
their Java names; fields that the version lacks and tagged fields at their default are left out.
``records`` are base64 of their bytes, the form that Kafka's reader takes (its writer drops them).
Unknown tagged fields do not appear.
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
from typing import Any

from kwire.errors import DecodeError, EncodeError
from kwire.structs import FieldInfo, Struct, generated_class
from kwire.uuid import Uuid

_BLOBS = ("bytes", "records", "Header", "ApiMessage")
_RANGES = {
    "int8": (-(2**7), 2**7),
    "int16": (-(2**15), 2**15),
    "uint16": (0, 2**16),
    "int32": (-(2**31), 2**31),
    "uint32": (0, 2**32),
    "int64": (-(2**63), 2**63),
}
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """See :meth:`kwire.message.Message.to_json`, which checks ``version``."""
    return _struct_to_json(message, version, message.NAME)


@functools.cache
def _plan(
    cls: type[Struct], version: int
) -> tuple[tuple[tuple[FieldInfo, bool, Any], ...], tuple[tuple[FieldInfo, Any], ...]]:
    """The fields of ``version`` as (field, tagged?, default), and those that must keep their
    default as (field, default).
    """
    blank = cls()
    present = tuple(
        (f, f.tagged_at(version), getattr(blank, f.attr)) for f in cls.fields() if f.at(version)
    )
    absent = tuple(
        (f, getattr(blank, f.attr)) for f in cls.fields() if not f.at(version) and not f.ignorable
    )
    return present, absent


def _struct_to_json(value: Struct, version: int, path: str) -> dict[str, Any]:
    present, absent = _plan(generated_class(type(value)), version)  # type: ignore[arg-type]  # classes are hashable
    for f, default in absent:
        if getattr(value, f.attr) != default:
            raise EncodeError(
                f"is set, but version {version} has no place for it", path=f"{path}.{f.name}"
            )
    out: dict[str, Any] = {}
    for f, tagged, default in present:
        one = getattr(value, f.attr)
        if tagged and one == default:
            continue
        out[f.json] = _field_to_json(f, one, version, path)
    return out


def _field_to_json(f: FieldInfo, one: Any, version: int, path: str) -> Any:
    if one is None:
        if not f.nullable_at(version):
            raise EncodeError("null where null is not allowed", path=f"{path}.{f.name}")
        return None
    if not f.array:
        return _value_to_json(f, one, version, path)
    if f.is_struct or f.type in ("uuid", "float64", *_BLOBS):
        return [_value_to_json(f, item, version, path) for item in one]
    return list(one)


def _value_to_json(f: FieldInfo, one: Any, version: int, path: str) -> Any:
    if f.is_struct:
        return _struct_to_json(one, version, f"{path}.{f.name}")
    if f.type in _BLOBS:
        return base64.b64encode(one).decode("ascii")
    if f.type == "uuid":
        return str(one if isinstance(one, Uuid) else Uuid(one))
    if f.type == "float64" and not math.isfinite(one):
        return "NaN" if one != one else "Infinity" if one > 0 else "-Infinity"
    return one


def from_json(cls: type[Struct], value: Any, version: int) -> Struct:
    """See :meth:`kwire.message.Message.from_json`, which checks ``version``."""
    return _struct_from_json(cls, value, version, cls.NAME)


def _struct_from_json(cls: type[Struct], value: Any, version: int, path: str) -> Struct:
    if not isinstance(value, dict):
        raise DecodeError(f"an object expected, not {type(value).__name__}", path=path)
    made = cls()
    for f, tagged, _ in _plan(cls, version)[0]:
        where = f"{path}.{f.json}"
        if f.json in value:
            setattr(made, f.attr, _field_from_json(cls, f, value[f.json], version, where))
        elif not tagged:
            raise DecodeError("is missing", path=where)
    return made


def _field_from_json(cls: type[Struct], f: FieldInfo, value: Any, version: int, where: str) -> Any:
    if value is None:
        if not f.nullable_at(version):
            raise DecodeError("null where null is not allowed", path=where)
        return None
    if not f.array:
        return _value_from_json(cls, f, value, version, where)
    if not isinstance(value, list):
        raise DecodeError(f"a list expected, not {type(value).__name__}", path=where)
    return [_value_from_json(cls, f, one, version, f"{where}[{i}]") for i, one in enumerate(value)]


def _value_from_json(cls: type[Struct], f: FieldInfo, value: Any, version: int, where: str) -> Any:
    if f.is_struct:
        return _struct_from_json(cls.struct_class(f.type), value, version, where)
    if f.type == "bool":
        if not isinstance(value, bool):
            raise DecodeError(f"true or false expected, not {value!r}", path=where)
        return value
    if f.type == "float64":
        return _float_from_json(value, where)
    if f.type in _RANGES:
        low, high = _RANGES[f.type]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
            raise DecodeError(f"a number of type {f.type} expected, not {value!r}", path=where)
        return value
    if not isinstance(value, str):
        raise DecodeError(f"text expected, not {value!r}", path=where)
    if f.type == "string":
        return value
    try:
        return Uuid.parse(value) if f.type == "uuid" else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DecodeError(str(error), path=where) from None


def _float_from_json(value: Any, where: str) -> float:
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DecodeError(f"a number expected, not {value!r}", path=where)
    return float(value)
