"""Random messages of any class and version, from a seeded random.Random."""

from __future__ import annotations

import random
import struct
from typing import Any

from kwire.message import FieldInfo, Message, Struct
from kwire.uuid import Uuid

_RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXT = ("", "a", "__cluster_metadata", "ü€😀", "\0", "x" * 126, "x" * 127, "x" * 128, "y" * 300)

#: Where readers of arrays take another way.
_MANY = (8, 9, 63, 64, 127, 128, 129, 300)


def random_message(
    cls: type[Message], version: int, rng: random.Random, *, tags: bool = True
) -> Any:
    """A message with every field of ``version`` set at random; with ``tags``, unknown tagged fields
    here and there.
    """
    return _struct(cls, version, rng, tags and version in cls.FLEXIBLE_VERSIONS, 0)


def _struct(cls: type[Struct], version: int, rng: random.Random, tags: bool, depth: int) -> Any:
    values = {
        f.attr: _field(cls, f, version, rng, tags, depth) for f in cls.fields() if f.at(version)
    }
    if tags and rng.random() < (
        0.2 if rng.random() < 0.5 else 0.002
    ):  # long arrays without any tag, too
        numbers = sorted(rng.sample(range(1000, 5000), rng.choice((1, 1, 2, 5))))
        values["unknown_tags"] = [(n, rng.randbytes(rng.choice((0, 1, 5, 130)))) for n in numbers]
    return cls(**values)


def _field(
    cls: type[Struct], f: FieldInfo, version: int, rng: random.Random, tags: bool, depth: int
) -> Any:
    if f.nullable_at(version) and rng.random() < 0.2:
        return None
    if not f.array:
        return _value(cls, f, version, rng, tags, depth)
    count = rng.choice((0, 1, 2, 3) if depth < 3 else (0, 1))
    if (not f.is_struct or _fixed(cls.struct_class(f.type), version)) and rng.random() < 0.1:
        count = rng.choice(_MANY)
    return [_value(cls, f, version, rng, tags, depth + 1) for _ in range(count)]


def _fixed(cls: type[Struct], version: int) -> bool:
    return not any(
        f.array or f.is_struct or f.type in ("string", "bytes", "records")
        for f in cls.fields()
        if f.at(version)
    )


def _value(
    cls: type[Struct], f: FieldInfo, version: int, rng: random.Random, tags: bool, depth: int
) -> Any:
    if f.is_struct:
        return _struct(cls.struct_class(f.type), version, rng, tags, depth + 1)
    kind = f.type
    if kind in _RANGES:
        top = 1 << _RANGES[kind]
        return rng.choice((0, 1, -1, top - 1, -top, rng.randrange(-top, top)))
    if kind == "uint16":
        return rng.randrange(1 << 16)
    if kind == "uint32":
        return rng.randrange(1 << 32)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice(
            (0.0, -0.0, 1.5, float("inf"), struct.unpack(">d", rng.randbytes(7) + b"\0")[0])
        )
    if kind == "uuid":
        return Uuid(rng.randbytes(16))
    if kind == "string":
        return rng.choice(_TEXT)
    return rng.randbytes(rng.choice((0, 1, 50, 126, 127, 128, 300)))
