"""Declares the elements of Kafka's wire as `construct` parsers: numbers, lengths, strings, bytes,
arrays. It knows no schema.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

from construct import (
    Construct,
    ConstructError,
    ExprAdapter,
    Float64b,
    Int8sb,
    Int16sb,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    stream_read,
    stream_write,
)

from kwire.uuid import Uuid

#: The longest string of the protocol, in bytes of UTF-8: a Java short, in the compact form too.
LONGEST_STRING: Final = 32767
#: Kafka keeps lengths, counts and tag numbers in a Java int.
HIGHEST_INT: Final = 2**31 - 1


class Refused(ConstructError):  # type: ignore[misc]
    """The bytes, or the value to be written, break a rule of the protocol. ``rule`` is its short
    name.
    """

    def __init__(self, reason: str, rule: str) -> None:
        self.reason, self.rule = reason, rule
        super().__init__(reason)


def remaining(stream: io.BytesIO) -> int:
    """The number of bytes of the input that are not read yet."""
    return len(stream.getbuffer()) - stream.tell()


def take(stream: io.BytesIO, size: int, path: str) -> bytes:
    """Read exactly ``size`` bytes. Raises Refused if the input ends before that, without allocating
    ``size`` bytes.
    """
    left = remaining(stream)
    if size > left:
        raise Refused(f"{size} byte{'s' * (size != 1)} wanted, {left} left", "truncated")
    data: bytes = stream_read(stream, size, path)
    return data


class _Whole(Construct):  # type: ignore[misc]
    """An integer of construct that refuses to write a bool or a float."""

    def __init__(self, subcon: Any) -> None:
        super().__init__()
        self.subcon = subcon

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> int:
        data = take(stream, self.subcon.length, path)
        number: int = self.subcon.parse(data)
        return number

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if isinstance(obj, bool) or not isinstance(obj, int):
            raise Refused(f"an integer is wanted, not {obj!r}", "type")
        return self.subcon._build(obj, stream, context, path)


class _Float(Construct):  # type: ignore[misc]
    """An IEEE double. NaN keeps its payload: the eight bytes pass through no arithmetic."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> float:
        number: float = Float64b.parse(take(stream, 8, path))
        return number

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if isinstance(obj, bool) or not isinstance(obj, int | float):
            raise Refused(f"a number is wanted, not {obj!r}", "type")
        return Float64b._build(obj, stream, context, path)


class _Bool(Construct):  # type: ignore[misc]
    """One byte: anything but zero is true, true is written as one."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> bool:
        return take(stream, 1, path) != b"\x00"

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if not isinstance(obj, bool):
            raise Refused(f"true or false is wanted, not {obj!r}", "type")
        stream_write(stream, b"\x01" if obj else b"\x00", 1, path)
        return obj


class _UuidBytes(Construct):  # type: ignore[misc]
    """Sixteen bytes, most significant first."""

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Uuid:
        return Uuid(take(stream, 16, path))

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if not isinstance(obj, bytes) or len(obj) != 16:
            raise Refused(f"a uuid of 16 bytes is wanted, not {obj!r}", "type")
        stream_write(stream, bytes(obj), 16, path)
        return obj


class _UnsignedVarint(Construct):  # type: ignore[misc]
    """Seven bits a byte, lowest first, five bytes at most; padding with empty high groups is
    allowed, as in Kafka.

    Kafka drops surplus bits of the fifth byte, and reads a number with the 32nd bit as negative. No
    writer makes such bytes, so both are refused.
    """

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> int:
        value = 0
        for shift in (0, 7, 14, 21, 28):
            byte = take(stream, 1, path)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise Refused("a varint of more than five bytes", "varint-range")
        if value > HIGHEST_INT:
            raise Refused(f"varint {value} is above {HIGHEST_INT}", "varint-range")
        return value

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if not isinstance(obj, int) or not 0 <= obj <= HIGHEST_INT:
            raise Refused(f"{obj!r} is not a number from 0 to {HIGHEST_INT}", "range")
        groups = bytearray()
        value = obj
        while value > 0x7F:
            groups.append(value & 0x7F | 0x80)
            value >>= 7
        groups.append(value)
        stream_write(stream, bytes(groups), len(groups), path)
        return obj


UnsignedVarint: Final = _UnsignedVarint()
#: The lengths of flexible versions: one more than the length, 0 for null.
CompactLength: Final = ExprAdapter(UnsignedVarint, lambda n, _: n - 1, lambda n, _: n + 1)
Int8: Final = _Whole(Int8sb)
Int16: Final = _Whole(Int16sb)
Int32: Final = _Whole(Int32sb)

#: The types that look the same in every version.
FIXED: Final[dict[str, Construct]] = {
    "bool": _Bool(),
    "int8": Int8,
    "int16": Int16,
    "uint16": _Whole(Int16ub),
    "int32": Int32,
    "uint32": _Whole(Int32ub),
    "int64": _Whole(Int64sb),
    "float64": _Float(),
    "uuid": _UuidBytes(),
}


class Blob(Construct):  # type: ignore[misc]
    """Bytes behind their length. Any negative length is null, where null is allowed.

    Arguments: ``length`` parses the length, ``nullable`` tells whether None may stand here.
    """

    def __init__(self, length: Construct, nullable: bool) -> None:
        super().__init__()
        self.length, self.nullable = length, nullable

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> bytes | None:
        size: int = self.length._parsereport(stream, context, path)
        if size < 0:
            null_allowed(self.nullable)
            return None
        return take(stream, size, path)

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if obj is None:
            null_allowed(self.nullable)
            self.length._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, bytes | bytearray | memoryview):
            raise Refused(f"bytes are wanted, not {obj!r}", "type")
        data = bytes(obj)
        self.length._build(len(data), stream, context, path)
        stream_write(stream, data, len(data), path)
        return obj


class Text(Construct):  # type: ignore[misc]
    """A string: UTF-8 behind its length. Kafka replaces bad UTF-8 by U+FFFD and so loses bytes;
    here it is refused.
    """

    def __init__(self, length: Construct, nullable: bool) -> None:
        super().__init__()
        self.blob = Blob(length, nullable)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> str | None:
        data = self.blob._parse(stream, context, path)
        if data is None:
            return None
        _short_enough(data)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused(
                f"not UTF-8: {error.reason} at byte {error.start} of the string", "bad-utf8"
            ) from None

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if obj is not None and not isinstance(obj, str):
            raise Refused(f"a string is wanted, not {obj!r}", "type")
        try:
            data = None if obj is None else obj.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Refused(f"not text that UTF-8 can hold: {error.reason}", "bad-utf8") from None
        _short_enough(data or b"")
        return self.blob._build(data, stream, context, path)


class Array(Construct):  # type: ignore[misc]
    """Elements behind their count. A count above the number of bytes left is refused before
    anything is made.

    Arguments: ``length`` parses the count; ``element`` one element; ``label`` is the schema's name
    of its type.
    """

    def __init__(self, length: Construct, nullable: bool, element: Construct, label: str) -> None:
        super().__init__()
        self.length, self.nullable, self.element, self.label = length, nullable, element, label

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> list[Any] | None:
        trail = context._params.trail
        count: int = trail.note(
            "count", "length", stream, lambda: self.length._parsereport(stream, context, path)
        )
        if count < 0:
            null_allowed(self.nullable)
            return None
        if count > remaining(stream):
            raise Refused(f"{count} elements claimed, {remaining(stream)} bytes left", "truncated")
        found = []
        for index in range(count):
            trail.enter(f"[{index}]", self.label, stream.tell())
            value = self.element._parsereport(stream, context, path)
            trail.leave(stream.tell(), value)
            found.append(value)
        return found

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if obj is None:
            null_allowed(self.nullable)
            self.length._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, list | tuple):
            raise Refused(f"a list is wanted, not {obj!r}", "type")
        self.length._build(len(obj), stream, context, path)
        trail = context._params.trail
        for index, value in enumerate(obj):
            trail.enter(f"[{index}]", self.label, stream.tell())
            self.element._build(value, stream, context, path)
            trail.leave(stream.tell(), value)
        return obj


class NullableStruct(Construct):  # type: ignore[misc]
    """A struct that may be null, behind its marker: a number that is ``null`` or 1 when written.

    Outside of tags the marker is a signed byte: negative is null. Inside of them it is an unsigned
    varint: 0 is null.
    """

    def __init__(self, marker: Construct, null: int, struct: Construct) -> None:
        super().__init__()
        self.marker, self.null, self.struct = marker, null, struct

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Any:
        trail = context._params.trail
        marker: int = trail.note(
            "present", "marker", stream, lambda: self.marker._parsereport(stream, context, path)
        )
        return None if marker <= self.null else self.struct._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        self.marker._build(self.null if obj is None else 1, stream, context, path)
        return obj if obj is None else self.struct._build(obj, stream, context, path)


def null_allowed(nullable: bool) -> None:
    """Refuse a null in a field that is not nullable."""
    if not nullable:
        raise Refused("null where null is not allowed", "null")


def _short_enough(data: bytes) -> None:
    if len(data) > LONGEST_STRING:
        raise Refused(
            f"a string of {len(data)} bytes, {LONGEST_STRING} are allowed", "string-length"
        )


#: length and null -> what reads a value of the types that hold their own length.
SIZED: Final[dict[str, Callable[[Construct, bool], Construct]]] = {
    "string": Text,
    "bytes": Blob,
    "records": Blob,
    # KIP-590's text wraps a whole header and a whole request: bytes to everyone but their reader.
    "Header": Blob,
    "ApiMessage": Blob,
}
