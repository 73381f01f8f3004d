"""Learns the positions of a metadata record's fields from one record; they hold for all records of
the same shape.

Only some bytes of a record decide how the others are read: lengths of strings and arrays, numbers
and sizes of tagged fields. Those are its shape. Records of one type, version and size whose shape
is the same have every field at the same place. Knows neither Spark nor Arrow; its results must
equal those of ``decode_metadata_record``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kwire.message import FieldInfo, Struct
from kwire.records import decode_metadata_record
from kwire.records.redact import REDACTED, redact
from kwire.varint import read_unsigned_varint

#: Bytes of a record before its message, where each of the three numbers takes one.
FRAME: Final = 3
#: Fields on which the key, or whether another field is secret, depends: they are part of the shape.
_PINNED: Final[Mapping[str, frozenset[str]]] = {
    "CONFIG_RECORD": frozenset(("resourceType", "name"))
}
#: Quotas have a key that no fixed place gives, and numbers whose text is Python's own.
_NEVER: Final = frozenset(("CLIENT_QUOTA_RECORD",))
#: Records with more fields and elements than this are better read one by one.
_LEAVES_MAX: Final = 256
#: Fields of a fixed size, in bytes.
_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uuid": 16,
}


class Unfit(Exception):
    """The record, or its type, cannot have a layout."""


@dataclass(frozen=True)
class Leaf:
    """A field whose value varies, by its bytes. ``never`` is a value that a record with this layout
    does not have there.
    """

    type: str
    at: int
    size: int
    never: bytes | None = None


@dataclass(frozen=True)
class Constant:
    """A field that all records of the layout have in common, as a message holds it; ``shown`` is
    false if JSON leaves it out.
    """

    value: Any
    shown: bool = True


@dataclass(frozen=True)
class Items:
    """An array of a fixed number of elements."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Members:
    """A struct: the layout of each field, None if the version lacks the field. ``cls`` is its
    class.
    """

    cls: type[Struct]
    fields: tuple[tuple[FieldInfo, Node | None], ...]

    def __getitem__(self, name: str) -> Node | None:
        return next(node for f, node in self.fields if f.json == name)


Node = Leaf | Constant | Items | Members


@dataclass(frozen=True)
class Layout:
    """The positions of all fields of records with one shape. ``shape`` are the positions of the
    bytes that decide the shape, and ``expected`` those bytes.
    """

    name: str
    version: int
    size: int
    shape: tuple[int, ...]
    expected: bytes
    root: Members
    leaves: tuple[Leaf, ...]


def layout_of(value: bytes, *, secrets: bool) -> Layout | None:
    """The layout that ``value`` has, None if it cannot have one. Without ``secrets`` secret fields
    are hidden, and not read from each record.

    Raises WireError as :func:`decode_metadata_record`: a damaged record has no layout.
    """
    if len(value) < FRAME or max(value[:FRAME]) > 127:
        return None
    name, version, message = decode_metadata_record(value)
    if name in _NEVER:
        return None
    hidden = {} if secrets else _hidden(name, message.to_json(version))
    walk = _Walk(value, version, hidden, _PINNED.get(name, frozenset()))
    try:
        root = walk.struct(message, top=True)
    except Unfit:
        return None
    if (
        walk.at != len(value)
        or len(walk.leaves) > _LEAVES_MAX
        or any(leaf.type == "bytes" for leaf in walk.leaves)
    ):
        return None
    shape = tuple(walk.shape)
    return Layout(
        name, version, len(value), shape, bytes(value[at] for at in shape), root, tuple(walk.leaves)
    )


def _hidden(name: str, data: Mapping[str, Any]) -> dict[str, str]:
    """Return the members that are secret in records like this one."""
    probe = object()
    given = [
        member
        for member, value in data.items()
        if value is not None and member not in _PINNED.get(name, ())
    ]
    return {
        member: REDACTED
        for member in given
        if redact(name, {**data, member: probe})[member] is not probe
    }


@dataclass
class _Walk:
    """Walks through the bytes of one record, along with the message that was decoded from them."""

    value: bytes
    version: int
    hidden: Mapping[str, str]
    pinned: frozenset[str]
    at: int = FRAME
    shape: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)

    def struct(self, message: Struct, top: bool = False) -> Members:
        found: dict[str, Node] = {}
        fields = message.fields()
        for f in fields:
            if f.at(self.version) and not f.tagged_at(self.version):
                found[f.json] = self._field(f, getattr(message, f.attr), top)
        tagged = {f.tag: f for f in fields if f.at(self.version) and f.tagged_at(self.version)}
        self._tags(message, tagged, found)
        for f in tagged.values():
            found.setdefault(f.json, Constant(getattr(message, f.attr), shown=False))
        return Members(type(message), tuple((f, found.get(f.json)) for f in fields))

    def _tags(
        self, message: Struct, tagged: Mapping[int | None, FieldInfo], found: dict[str, Node]
    ) -> None:
        last = -1
        for _ in range(self._varint()):
            tag, size = self._varint(), self._varint()
            if tag <= last:
                raise Unfit("tagged fields that Kafka's writer would not write so")
            last, end = tag, self.at + size
            f = tagged.get(tag)
            if f is None:
                self.at = end  # an unknown one: it is in neither form
                continue
            found[f.json] = self._tagged(f, getattr(message, f.attr), message)
            if self.at != end:
                raise Unfit("a tagged field of another size")

    def _tagged(self, f: FieldInfo, value: Any, message: Struct) -> Node:
        """A tagged field that is present. JSON leaves it out at its default, so records in which it
        has the default do not fit this layout.
        """
        default = getattr(type(message)(), f.attr)
        if value == default:
            raise Unfit("a tagged field at its default")
        node = self._field(f, value, False)
        if not isinstance(node, Leaf):
            return node
        if f.type not in _SIZES or f.type == "uuid":
            raise Unfit("only of numbers is the default known as bytes")
        self.leaves.remove(node)
        signed = not f.type.startswith("u") and f.type != "bool"
        node = Leaf(
            node.type, node.at, node.size, int(default).to_bytes(node.size, "big", signed=signed)
        )
        self.leaves.append(node)
        return node

    def _field(self, f: FieldInfo, value: Any, top: bool) -> Node:
        if f.array:
            count = self._varint()
            if value is None or not value:
                return Constant(value)
            if len(value) != count - 1:
                raise Unfit("an array of another length")
            return Items(tuple(self._one(f, one) for one in value))
        start, before = self.at, len(self.leaves)
        node = self._one(f, value)
        if top and f.json in self.hidden:
            if f.type == "string":
                raise Unfit("a hidden string, which has to be read to know that it is one")
            del self.leaves[before:]
            return Constant(
                self.hidden[f.json].encode() if isinstance(value, bytes) else self.hidden[f.json]
            )
        if top and f.json in self.pinned:
            self.shape += [at for at in range(start, self.at) if at not in self.shape]
            del self.leaves[before:]
            return Constant(value)
        return node

    def _one(self, f: FieldInfo, value: Any) -> Node:
        if f.is_struct:
            if value is None or f.nullable_at(self.version):
                raise Unfit("a struct that may be null")
            return self.struct(value)
        size = _SIZES.get(f.type)
        if size is None:
            if f.type not in ("string", "bytes"):
                raise Unfit(f"a field of type {f.type}")
            size = self._varint() - 1
            if size <= 0:
                return Constant(value)
        leaf = Leaf(f.type, self.at, size)
        self.at += size
        self.leaves.append(leaf)
        return leaf

    def _varint(self) -> int:
        number, end = read_unsigned_varint(self.value, self.at)
        self.shape += range(self.at, end)
        self.at = end
        return number
