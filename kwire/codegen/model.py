"""Models a message schema as plain values: versions, fields, structs. It does not parse, and knows
no Python output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

#: The highest version number there is (a Java short): what an open range such as ``3+`` ends in.
MAX_VERSION = 32767


class SchemaError(Exception):
    """A schema breaks a rule. Attributes: ``source`` (file), ``path``
    (``FetchRequest.Topics.Partitions``), ``rule``.
    """

    def __init__(self, source: str, path: str, rule: str) -> None:
        self.source, self.path, self.rule = source, path, rule
        super().__init__(f"{source}: {path}: {rule}" if path else f"{source}: {rule}")


@dataclass(frozen=True, order=True)
class Versions:
    """A range of versions, both ends included. ``Versions(0, -1)`` is the empty range, written
    ``none``.
    """

    low: int = 0
    high: int = -1

    @classmethod
    def parse(cls, text: str) -> Versions:
        """``"3"``, ``"0-5"``, ``"2+"`` or ``"none"``. Raises ValueError."""
        text = text.strip()
        if text == "none":
            return NONE
        if text.endswith("+"):
            low, high = int(text[:-1]), MAX_VERSION
        elif "-" in text[1:]:
            first, last = text.split("-", 1)
            low, high = int(first), int(last)
        else:
            low = high = int(text)
        if not 0 <= low <= high <= MAX_VERSION:
            raise ValueError(f"{text!r} is not a range of versions")
        return cls(low, high)

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __and__(self, other: Versions) -> Versions:
        both = Versions(max(self.low, other.low), min(self.high, other.high))
        return both if both else NONE

    def covers(self, other: Versions) -> bool:
        """True if every version of ``other`` is in this range."""
        return not other or (self.low <= other.low and other.high <= self.high)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == MAX_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NONE = Versions()


@dataclass(frozen=True)
class Field:
    """One field of a struct. ``type`` is the element type where ``array`` is true; ``struct`` is
    set for inner structs.
    """

    name: str
    attr: str
    type: str
    array: bool
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    #: None, a number, bool, str, 16 bytes for a uuid; for arrays, bytes and structs: None (null) or
    #: "" (empty)
    default: Any
    ignorable: bool
    map_key: bool
    flexible: (
        Versions | None
    )  #: the field's own flexible versions, where it has them (RequestHeader.ClientId)
    zero_copy: bool
    entity: str | None
    struct: Struct | None = dataclass_field(default=None, repr=False)


@dataclass
class Struct:
    """A struct: the message itself or one inside it. ``cls`` is its Python class name."""

    name: str
    cls: str
    versions: Versions
    fields: list[Field] = dataclass_field(default_factory=list)

    def at(self, version: int) -> list[Field]:
        """The untagged fields of ``version``, in the order in which they are encoded."""
        return [f for f in self.fields if version in f.versions and version not in f.tagged]

    def tagged_at(self, version: int) -> list[Field]:
        """The tagged fields of ``version`` in order of tag."""
        found = [f for f in self.fields if version in f.versions and version in f.tagged]
        return sorted(found, key=lambda f: f.tag or 0)


@dataclass(frozen=True)
class Schema:
    """One schema file. ``structs`` holds every struct once, inner ones before those that use them,
    the message last.
    """

    source: str
    name: str
    type: str
    api_key: int | None
    valid: Versions
    flexible: Versions
    deprecated: Versions
    unstable: bool
    listeners: tuple[str, ...]
    #: (first version, version of the header from there on), where the schema says so (KIP-1313).
    headers: tuple[tuple[int, int], ...]
    root: Struct
    structs: tuple[Struct, ...]
