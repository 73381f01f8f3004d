"""Declares structs of Kafka's wire as `construct` parsers of dicts: fields in order, then the tag
section. It knows no schema.

A value is a dict by the schema's field names. Fields that the version lacks are left out of it;
tagged fields that are not in the bytes are there with their default; unknown tagged
fields are under ``UNKNOWN_TAGS``, where there are any.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from construct import Construct, stream_write

from kwire.reference.parse_trace import ParseTrace
from kwire.reference.primitives import HIGHEST_INT, Refused, UnsignedVarint, remaining, take

#: The key of a list of (tag number, bytes). No field can have this name.
UNKNOWN_TAGS: Final = "_unknown_tags"


class Field(Construct):  # type: ignore[misc]
    """A named value inside a struct; ``label`` is the schema's name of its type, ``default`` makes
    its default value.
    """

    def __init__(self, name: str, label: str, wire: Construct, default: Callable[[], Any]) -> None:
        super().__init__()
        self.name, self.label, self.wire, self.default = name, label, wire, default

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Any:
        trail: ParseTrace = context._params.trail
        trail.enter(self.name, self.label, stream.tell())
        value = self.wire._parsereport(stream, context, path)
        trail.leave(stream.tell(), value)
        return value

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        trail: ParseTrace = context._params.trail
        trail.enter(self.name, self.label, stream.tell())
        self.wire._build(obj, stream, context, path)
        trail.leave(stream.tell(), obj)
        return obj

    def is_default(self, value: Any, built: bytes) -> bool:
        """True if Kafka would leave this value out of a tag section. ``built`` is its encoded
        form.
        """
        default = self.default()
        if default is None or value is None:
            return default is value
        # A struct may be given without its defaults: what it builds to tells.
        return bool(value == default) or built == self.wire.build(default, trail=ParseTrace())


class Absent:
    """A field that this version lacks: an ignorable one is dropped, another must have its
    default.
    """

    def __init__(self, name: str, ignorable: bool, default: Callable[[], Any]) -> None:
        self.name, self.ignorable, self.default = name, ignorable, default

    def check(self, value: Any) -> None:
        """Refuse a value that would be lost."""
        if not self.ignorable and value != self.default():
            raise Refused(f"{self.name} is set, but this version has no place for it", "lost")


class TagSection(Construct):  # type: ignore[misc]
    """A count, then number, size and value of each tagged field.

    Arguments: ``known`` the fields by tag; ``foreign`` tags that this struct knows at other
    versions: Kafka refuses them. Kafka does not check the size of a known tag; here it must be
    right. A tag may come twice, in any order: of a known one the last counts, unknown ones are all
    kept.
    """

    def __init__(self, known: Mapping[int, Field], foreign: Sequence[int]) -> None:
        super().__init__()
        self.known, self.foreign = dict(known), frozenset(foreign)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> dict[str, Any]:
        trail: ParseTrace = context._params.trail
        number = UnsignedVarint._parse
        count = trail.note("tagged fields", "count", stream, lambda: number(stream, context, path))
        if count > remaining(stream):
            raise Refused(
                f"{count} tagged fields claimed, {remaining(stream)} bytes left", "truncated"
            )
        values = {field.name: field.default() for field in self.known.values()}
        unknown = []
        for _ in range(count):
            tag = trail.note("tag", "varint", stream, lambda: number(stream, context, path))
            size = trail.note("size", "varint", stream, lambda: number(stream, context, path))
            if tag in self.foreign:
                raise Refused(f"tag {tag} is not valid at this version", "tag-of-other-version")
            if tag in self.known:
                values[self.known[tag].name] = self._known(tag, size, stream, context, path)
            else:
                data = trail.note(
                    f"unknown tag {tag}", "bytes", stream, partial(take, stream, size, path)
                )
                unknown.append((tag, data))
        if unknown:
            values[UNKNOWN_TAGS] = unknown
        return values

    def _known(self, tag: int, size: int, stream: io.BytesIO, context: Any, path: str) -> Any:
        if size > remaining(stream):
            raise Refused(
                f"tag {tag} claims {size} bytes, {remaining(stream)} are left", "tag-size"
            )
        end = stream.tell() + size
        value = self.known[tag]._parse(stream, context, path)
        if stream.tell() != end:
            raise Refused(
                f"tag {tag} claims {size} bytes, its value has {stream.tell() - end + size}",
                "tag-size",
            )
        return value

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        sections = [*self._known_sections(obj, context, path), *self._unknown_sections(obj)]
        sections.sort(key=lambda section: section[0])
        UnsignedVarint._build(len(sections), stream, context, path)
        for tag, data in sections:
            UnsignedVarint._build(tag, stream, context, path)
            UnsignedVarint._build(len(data), stream, context, path)
            stream_write(stream, data, len(data), path)
        return obj

    def _known_sections(
        self, obj: Mapping[str, Any], context: Any, path: str
    ) -> list[tuple[int, bytes]]:
        sections = []
        for tag, field in self.known.items():
            if field.name in obj:
                inner = io.BytesIO()
                field._build(obj[field.name], inner, context, path)
                if not field.is_default(obj[field.name], inner.getvalue()):
                    sections.append((tag, inner.getvalue()))
        return sections

    def _unknown_sections(self, obj: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        # The rules of Kafka's RawTaggedFieldWriter.
        last = -1
        sections = [(int(tag), bytes(data)) for tag, data in obj.get(UNKNOWN_TAGS, ())]
        for tag, _ in sections:
            if not last < tag < HIGHEST_INT:
                raise Refused(
                    f"unknown tag {tag} after {last}: tags must rise, up to {HIGHEST_INT - 1}",
                    "tag-order",
                )
            if tag in self.known:
                raise Refused(f"tag {tag} belongs to {self.known[tag].name}", "tag-order")
            last = tag
        return sections


class Struct(Construct):  # type: ignore[misc]
    """Fields in order and, in flexible versions, a tag section behind them.

    Arguments: ``name`` of the schema; ``fields`` that stand in order; ``tags`` or None; ``absent``
    fields of other versions.
    """

    def __init__(
        self, name: str, fields: Sequence[Field], tags: TagSection | None, absent: Sequence[Absent]
    ) -> None:
        super().__init__()
        self.name, self.fields, self.tags, self.absent = name, tuple(fields), tags, tuple(absent)
        self._present = (*self.fields, *(tags.known.values() if tags is not None else ()))
        self._names = {
            UNKNOWN_TAGS,
            *(f.name for f in self._present),
            *(f.name for f in self.absent),
        }

    def default(self) -> dict[str, Any]:
        """A fresh value with every field of this version at its default."""
        return {field.name: field.default() for field in self._present}

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> dict[str, Any]:
        value = {field.name: field._parse(stream, context, path) for field in self.fields}
        if self.tags is not None:
            value.update(self.tags._parse(stream, context, path))
        return value

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        if not isinstance(obj, Mapping):
            raise Refused(f"a dict is wanted for {self.name}, not {obj!r}", "type")
        if not self._names.issuperset(obj):
            raise Refused(
                f"{self.name} has no field {', '.join(sorted(set(obj) - self._names))}",
                "unknown-field",
            )
        for absent in self.absent:
            if absent.name in obj:
                absent.check(obj[absent.name])
        for field in self.fields:
            field._build(
                obj[field.name] if field.name in obj else field.default(), stream, context, path
            )
        if self.tags is not None:
            self.tags._build(obj, stream, context, path)
        elif obj.get(UNKNOWN_TAGS):
            raise Refused("unknown tags cannot be written: this version is not flexible", "lost")
        return obj
