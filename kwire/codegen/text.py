"""Collects lines of Python, and holds the facts of the wire that both emitters need. It has no
schema logic.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Iterator
from contextlib import contextmanager

from kwire.codegen.model import Field, Schema, Struct

#: Struct format character of every type with one fixed size. bool is "?": any byte but 0 is true,
#: as in Java.
FIXED = {
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

#: Types whose wire form is a length and that many bytes. Header and ApiMessage (KIP-590) travel as
#: bytes.
BLOBS = frozenset(("bytes", "records", "Header", "ApiMessage"))


class Lines:
    """An indented list of lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.level = 0

    def __call__(self, text: str) -> None:
        self.lines.append("    " * self.level + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self(head)
        self.level += 1
        yield
        self.level -= 1

    def text(self) -> str:
        return "\n".join(self.lines)


class Formats:
    """The bound ``Struct`` methods that a module uses; each gets one module-level name."""

    def __init__(self) -> None:
        self.used: dict[str, str] = {}

    def __call__(self, kind: str, codes: list[str]) -> str:
        """The name of ``unpack_from``, ``pack`` or ``row_reader`` (kind u, p, r) for a run of
        format characters.
        """
        joined = "".join(codes)
        name = f"_{kind}_{joined}".replace("?", "t")
        maker = {"u": "unpacker", "p": "packer", "r": "row_reader"}[kind]
        self.used[name] = f'{name} = {maker}(">{joined}")'
        return name


class Helpers:
    """Functions that a module's readers and writers call, as text by name; equal ones of several
    versions are one.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def __call__(self, stem: str, version: int, signature: str, body: str) -> str:
        """The name of the function with this body: that of an earlier version with the same body,
        or ``STEM_vVERSION``.
        """
        for name, text in self.texts.items():
            if name.startswith(stem + "_v") and text.partition("\n")[2] == body:
                return name
        name = f"{stem}_v{version}"
        while name in self.texts:
            name += "_"
        self.texts[name] = f"def {name}{signature}:\n{body}"
        return name


def size_of(codes: list[str]) -> int:
    """Bytes of a run of format characters."""
    return _struct.calcsize(">" + "".join(codes))


def flexible_at(schema: Schema, field: Field | None, version: int) -> bool:
    """True if the lengths of the field are compact. Its own flexibleVersions take precedence over
    the message's (RequestHeader.ClientId).
    """
    if field is not None and field.flexible is not None:
        return version in field.flexible
    return version in schema.flexible


def smallest(schema: Schema, field: Field, version: int) -> int:
    """The fewest bytes that one element of ``field`` can take, at least 1."""
    if field.struct is not None:
        return max(1, smallest_struct(schema, field.struct, version))
    if field.type in FIXED:
        return size_of([FIXED[field.type]])
    if flexible_at(schema, field, version):
        return 1
    return 2 if field.type == "string" else 4


def smallest_struct(schema: Schema, struct: Struct, version: int) -> int:
    """The fewest bytes that ``struct`` can take at ``version``."""
    flexible = version in schema.flexible
    total = 1 if flexible else 0
    for f in struct.at(version):
        if f.array:
            total += 1 if flexible_at(schema, f, version) else 4
        elif f.struct is not None:
            total += 1 if version in f.nullable else smallest_struct(schema, f.struct, version)
        else:
            total += smallest(schema, f, version)
    return total


def default_expression(field: Field, *, shared: bool) -> str:
    """Python text of a field's default. With ``shared`` it is the frozen default of a struct, which
    decoders use.
    """
    if field.default is None:
        return "None"
    if field.array:
        return "[]"
    if field.struct is not None:
        return (
            f"_D_{field.struct.cls}"
            if shared and is_flat(field.struct)
            else f"{field.struct.cls}()"
        )
    if field.type in BLOBS:
        return 'b""'
    if field.type == "uuid":
        return "ZERO_UUID" if field.default == bytes(16) else f"Uuid({field.default!r})"
    if field.type == "float64" and (
        field.default != field.default or field.default in (float("inf"), float("-inf"))
    ):
        return f'float("{field.default}")'
    return repr(field.default)


def is_flat(struct: Struct) -> bool:
    """True if the struct has no field that can be changed in place, so that its default may be
    shared.
    """
    return not any(f.array or f.struct is not None for f in struct.fields)


def not_default(field: Field, value: str) -> str:
    """A condition that is true when ``value`` differs from the field's default."""
    if field.default is None:
        return f"{value} is not None"
    if field.array:
        return f"({value} is None or len({value}) > 0)" if field.nullable else f"len({value}) > 0"
    if field.struct is not None:
        if not is_flat(field.struct):
            return f"{value} != {field.struct.cls}()"
        # Attribute by attribute: a call of __eq__ would cost more than the whole rest of a small
        # struct.
        parts = [not_default(f, f"{value}.{f.attr}") for f in field.struct.fields]
        return (
            f"({value} is not _D_{field.struct.cls} and"
            f" ({' or '.join([*parts, f'{value}.unknown_tags'])}))"
        )
    if field.type in BLOBS:
        return f"({value} is None or len({value}) > 0)" if field.nullable else f"len({value}) > 0"
    if field.type == "bool":
        return f"not {value}" if field.default else value
    if field.type == "string" and field.default == "":
        return f'{value} != ""'
    return f"{value} != {default_expression(field, shared=True)}"
