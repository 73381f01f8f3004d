"""The reference codec's values in the form of Kafka's JsonConverter, for comparison with what Kafka
printed.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Any

from kwire.reference import UNKNOWN_TAGS, Reference
from kwire.reference.structs import Field, Struct


def to_json(reference: Reference, value: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON that ``JsonConverter.write`` returns for the same message, ``records`` in base64."""
    return _struct(reference.declaration, value)


def _struct(struct: Struct, value: Mapping[str, Any]) -> dict[str, Any]:
    found = {f.name: _value(f, value[f.name]) for f in struct.fields}
    for field in struct.tags.known.values() if struct.tags else ():
        if value[field.name] != field.default():
            found[field.name] = _value(field, value[field.name])
    return {name[0].lower() + name[1:]: member for name, member in found.items()}


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    element = field.label.removeprefix("[]")
    if field.label.startswith("[]"):
        return [_element(element, field.wire.element, item) for item in value]
    return _element(element, getattr(field.wire, "struct", field.wire), value)


def _element(label: str, wire: Any, value: Any) -> Any:
    if isinstance(wire, Struct):
        return _struct(wire, value)
    if label == "uuid":
        return str(value)
    if label in ("bytes", "records"):
        return base64.b64encode(value).decode("ascii")
    if label == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def unknown_tags(reference: Reference, value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The unknown tagged fields as the vectors list them: path, tag, data."""
    return list(_unknown(reference.declaration, value, ""))


def _unknown(struct: Struct, value: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for tag, data in value.get(UNKNOWN_TAGS, ()):
        yield {"path": path, "tag": tag, "data": data.hex()}
    for field in (*struct.fields, *(struct.tags.known.values() if struct.tags else ())):
        inner = value[field.name]
        name = f"{path}.{field.name[0].lower()}{field.name[1:]}".removeprefix(".")
        wire = getattr(field.wire, "struct", field.wire)
        if isinstance(wire, Struct) and inner is not None:
            yield from _unknown(wire, inner, name)
        element = getattr(field.wire, "element", None)
        if isinstance(element, Struct):
            for index, item in enumerate(inner or ()):
                yield from _unknown(element, item, f"{name}[{index}]")
