"""Finds the field and offset at which a message broke, in a slow walk after the fast path has
failed.

The walk follows the facts in ``FIELDS``, with the rules of the generated code in the same order. It
runs only after the generated code has failed, and is some fifteen times slower. A caller that
bounds the elements of a message bounds the time too: then the walk ends after ``WALKED_MAX``
fields, and the error has the rule without the place.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

from kwire.errors import DecodeError, EncodeError
from kwire.structs import FieldInfo, Struct, generated_class
from kwire.wire import STRING_BYTES_MAX, more_varint

_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_BLOBS = ("bytes", "records", "Header", "ApiMessage")
#: Fields and elements that one walk looks at where elements are bounded: about 10 ms.
WALKED_MAX: Final = 3000
_UNBOUNDED: Final = sys.maxsize  # the budget of callers that give none


class _WalkedEnough(Exception):
    """The walk ended before it reached the fault."""


def explain_decode(
    cls: type[Struct],
    data: bytes,
    version: int,
    offset: int,
    budget: int,
    error: Exception,
    *,
    flexible: bool,
) -> DecodeError:
    """The DecodeError, with path and offset, for the bytes of a message that the generated reader
    refused with ``error``. ``flexible``: ``version`` is a flexible one of the message ``cls``.

    It has no path and offset if ``budget`` bounds the elements and the fault comes after
    ``WALKED_MAX`` fields.
    """
    walker = _Reader(cls, data, version, offset, budget, flexible)
    try:
        walker.message()
    except _WalkedEnough:
        return _without_place(cls, error)
    except DecodeError as found:
        return DecodeError(
            found.reason, path=walker.path(), offset=walker.field_at, rule=found.rule
        )
    # Both read the same rules, so this is not reached by any input known; the caller still gets the
    # one error type.
    rule = error.rule if isinstance(error, DecodeError) else ""
    return DecodeError(str(error) or type(error).__name__, path=cls.NAME, rule=rule)


def _without_place(cls: type[Struct], error: Exception) -> DecodeError:
    """The DecodeError with the rule of the generated reader's ``error``."""
    if isinstance(error, DecodeError):
        return DecodeError(error.reason, path=cls.NAME, rule=error.rule)
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"not UTF-8: {error.reason}", path=cls.NAME, rule="bad-utf8")
    return DecodeError("the input ends inside a field", path=cls.NAME, rule="truncated")


class _Reader:
    """One walk over bytes; ``stack`` is the path of the field being read."""

    def __init__(
        self,
        cls: type[Struct],
        data: bytes,
        version: int,
        offset: int,
        budget: int,
        flexible: bool,
    ) -> None:
        self.cls, self.data, self.version, self.at, self.budget = cls, data, version, offset, budget
        self.stack: list[str] = [cls.NAME]
        self.field_at = offset
        self.flexible = flexible
        self.steps = sys.maxsize if budget == _UNBOUNDED else WALKED_MAX

    def path(self) -> str:
        return "".join(self.stack)

    def message(self) -> None:
        self.struct(self.cls)

    def take(self, size: int) -> bytes:
        left = len(self.data) - self.at
        if size > left:
            raise DecodeError(f"{size} bytes needed, {max(0, left)} are left", rule="truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def varint(self) -> int:
        first = self.take(1)[0]
        if first < 128:
            return first
        try:
            value, self.at = more_varint(self.data, self.at, first)
        except IndexError:
            raise DecodeError("the input ends inside a varint", rule="truncated") from None
        return value

    def struct(self, cls: type[Struct]) -> None:
        for f in cls.fields():
            if f.at(self.version) and not f.tagged_at(self.version):
                self.stack.append("." + f.name)
                self.field_at = self.at
                self.field(cls, f)
                self.stack.pop()
        if self.flexible:
            self.tag_section(cls)

    def step(self) -> None:
        """Count one field or element. Raises _WalkedEnough."""
        self.steps -= 1
        if self.steps < 0:
            raise _WalkedEnough

    def field(self, cls: type[Struct], f: FieldInfo) -> None:
        self.step()
        flexible = (
            self.flexible if f.flexible is None else f.flexible[0] <= self.version <= f.flexible[1]
        )
        if f.array:
            self.array(cls, f, flexible)
        elif f.is_struct:
            if not (f.nullable_at(self.version) and self.number("b") < 0):
                self.struct(cls.struct_class(f.type))
        else:
            self.primitive(f.type, flexible, f.nullable_at(self.version))

    def primitive(self, kind: str, flexible: bool, nullable: bool) -> None:
        if kind in _CODES:
            self.number(_CODES[kind])
            return
        size = self.varint() - 1 if flexible else self.number("h" if kind == "string" else "i")
        if size < 0:
            if not nullable:
                raise DecodeError("null where null is not allowed", rule="null")
            return
        if kind == "string" and size > STRING_BYTES_MAX:
            raise DecodeError(
                f"string of {size} bytes, {STRING_BYTES_MAX} is the most", rule="string-length"
            )
        raw = self.take(size)
        if kind == "string":
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                raise DecodeError(
                    f"not UTF-8: {error.reason} at byte {error.start} of the string",
                    rule="bad-utf8",
                ) from None

    def count(self, flexible: bool, nullable: bool) -> int | None:
        n = self.varint() - 1 if flexible else self.number("i")
        if n < 0:
            if not nullable:
                raise DecodeError("null where null is not allowed", rule="null")
            return None
        assert isinstance(n, int)
        return n

    def array(self, cls: type[Struct], f: FieldInfo, flexible: bool) -> None:
        n = self.count(flexible, f.nullable_at(self.version))
        if n is None:
            return
        self.spend(n, _smallest(cls, f, self.version, self.flexible))
        inner = cls.struct_class(f.type) if f.is_struct else None
        for i in range(n):
            self.step()
            self.stack.append(f"[{i}]")
            self.field_at = self.at
            if inner is not None:
                self.struct(inner)
            else:
                self.primitive(f.type, flexible, False)
            self.stack.pop()

    def spend(self, n: int, least: int) -> None:
        if n > self.budget:
            raise DecodeError(
                f"{n} elements, more than the {self.budget} that this call still allows",
                rule="element-budget",
            )
        if n * least > len(self.data) - self.at:
            raise DecodeError(
                f"{n} elements of at least {least} bytes, {max(0, len(self.data) - self.at)} bytes"
                " are left",
                rule="truncated",
            )
        self.budget -= n

    def tag_section(self, cls: type[Struct]) -> None:
        self.stack.append(".<tags>")
        self.field_at = self.at
        count = self.varint()
        self.spend(count, 2)
        known = {f.tag: f for f in cls.fields() if f.tag is not None}
        for _ in range(count):
            self.step()
            self.field_at = self.at
            tag, size = self.varint(), self.varint()
            if size > len(self.data) - self.at:
                raise DecodeError(
                    f"tagged field {tag} of {size} bytes, {len(self.data) - self.at} are left",
                    rule="tag-size",
                )
            f = known.get(tag)
            if f is None:
                self.at += size
            elif not f.tagged_at(self.version):
                raise DecodeError(
                    f"tag {tag} is not valid at this version", rule="tag-of-other-version"
                )
            else:
                self.tagged(cls, f, size)
        self.stack.pop()

    def tagged(self, cls: type[Struct], f: FieldInfo, size: int) -> None:
        end = self.at + size
        self.stack.append("." + f.name)
        if f.is_struct and not f.array:
            if not (f.nullable_at(self.version) and self.varint() == 0):
                self.struct(cls.struct_class(f.type))
        else:
            self.field(cls, f)
        if self.at != end:
            raise DecodeError(
                f"the value of tag {f.tag} does not take the {size} bytes declared for it",
                rule="tag-size",
            )
        self.stack.pop()


def _smallest(cls: type[Struct], f: FieldInfo, version: int, flexible: bool) -> int:
    if f.is_struct:
        return max(1, _smallest_struct(cls.struct_class(f.type), version, flexible))
    if f.type in _CODES:
        return struct.calcsize(">" + _CODES[f.type])
    return 1 if flexible else 2 if f.type == "string" else 4


def _smallest_struct(cls: type[Struct], version: int, flexible: bool) -> int:
    total = 1 if flexible else 0
    for f in cls.fields():
        if not f.at(version) or f.tagged_at(version):
            continue
        if f.array:
            total += 1 if flexible else 4
        elif f.is_struct and f.nullable_at(version):
            total += 1
        else:
            total += (
                _smallest(cls, f, version, flexible)
                if not f.is_struct
                else _smallest_struct(cls.struct_class(f.type), version, flexible)
            )
    return total


def explain_encode(
    message: Struct, version: int, error: Exception, *, flexible: bool
) -> EncodeError:
    """The EncodeError, with path, for a message that the generated writer refused with
    ``error``. ``flexible``: ``version`` is a flexible one of the message.
    """
    found = _fault(message, message.NAME, version, flexible)
    if found is not None:
        return found
    return EncodeError(
        error.reason if isinstance(error, EncodeError) else str(error), path=message.NAME
    )


def _fault(value: Struct, path: str, version: int, flexible: bool) -> EncodeError | None:
    """Return the first field of ``value``, in order of the schema, that cannot be written."""
    blank = generated_class(type(value))()
    for f in value.fields():
        where = f"{path}.{f.name}"
        try:
            one = getattr(value, f.attr)
        except AttributeError:
            return EncodeError("has no value", path=where)
        if not f.at(version):
            if not f.ignorable and one != getattr(blank, f.attr):
                return EncodeError(f"is set, but version {version} has no place for it", path=where)
            continue
        found = _field_fault(value, f, one, where, version, flexible)
        if found is not None:
            return found
    return _tags_fault(value, path, version, flexible)


def _tags_fault(value: Struct, path: str, version: int, flexible: bool) -> EncodeError | None:
    if value.unknown_tags and not flexible:
        return EncodeError(f"version {version} has no tagged fields", path=f"{path}.unknown_tags")
    taken = {f.tag for f in value.fields() if f.tagged_at(version)}
    last = -1
    try:
        for tag, data in value.unknown_tags:
            if not last < tag < 0x7FFFFFFF or tag in taken:
                return EncodeError(
                    f"tag {tag} after {last}: tags ascend to 0x7ffffffe and are not known ones",
                    path=f"{path}.unknown_tags",
                )
            memoryview(data)
            last = tag
    except (TypeError, ValueError) as error:
        return EncodeError(f"(tag, bytes) pairs expected: {error}", path=f"{path}.unknown_tags")
    return None


def _field_fault(
    owner: Struct, f: FieldInfo, one: Any, where: str, version: int, flexible: bool
) -> EncodeError | None:
    if one is None:
        return (
            None
            if f.nullable_at(version)
            else EncodeError("null where null is not allowed", path=where)
        )
    if not f.array:
        return _value_fault(owner, f, one, where, version, flexible)
    if isinstance(one, str | bytes) or not hasattr(one, "__len__") or not hasattr(one, "__iter__"):
        return EncodeError(f"a list expected, not {type(one).__name__}", path=where)
    for i, item in enumerate(one):
        found = (
            EncodeError("null in an array", path=f"{where}[{i}]")
            if item is None
            else _value_fault(owner, f, item, f"{where}[{i}]", version, flexible)
        )
        if found is not None:
            return found
    return None


def _value_fault(
    owner: Struct, f: FieldInfo, one: Any, where: str, version: int, flexible: bool
) -> EncodeError | None:
    if f.is_struct:
        cls = owner.struct_class(f.type)
        if not isinstance(one, cls):
            return EncodeError(f"{f.type} expected, not {type(one).__name__}", path=where)
        return _fault(one, where, version, flexible)
    if f.type == "string":
        if not isinstance(one, str):
            return EncodeError(f"str expected, not {type(one).__name__}", path=where)
        try:
            size = len(one.encode())
        except UnicodeEncodeError as error:
            return EncodeError(f"not encodable as UTF-8: {error.reason}", path=where)
        return (
            EncodeError(f"string of {size} bytes, {STRING_BYTES_MAX} is the most", path=where)
            if size > STRING_BYTES_MAX
            else None
        )
    if f.type in _BLOBS:
        sized = isinstance(one, bytes | bytearray | memoryview) or (
            f.type == "records" and hasattr(one, "__len__")
        )
        return (
            None if sized else EncodeError(f"bytes expected, not {type(one).__name__}", path=where)
        )
    if f.type == "uuid" and not (isinstance(one, bytes) and len(one) == 16):
        return EncodeError(f"16 bytes expected, not {one!r}", path=where)
    try:
        struct.pack(">" + _CODES[f.type], one)
    except (struct.error, OverflowError, TypeError) as error:
        return EncodeError(f"{one!r} does not fit {f.type}: {error}", path=where)
    return None
