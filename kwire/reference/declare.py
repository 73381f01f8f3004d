"""Makes the `construct` declaration of one version from the facts of a message schema. It reads and
writes no bytes itself.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from construct import Construct

from kwire.reference.primitives import (
    FIXED,
    SIZED,
    Array,
    CompactLength,
    Int8,
    Int16,
    Int32,
    NullableStruct,
    UnsignedVarint,
)
from kwire.reference.structs import Absent, Field, Struct, TagSection
from kwire.uuid import ZERO_UUID, Uuid

Facts = Mapping[str, Any]
Fresh = Callable[[], Any]

#: Struct inside struct goes no deeper than this. Shipped schemas reach six; more is a struct that
#: contains itself.
DEEPEST = 40


def declare(schema: Facts, version: int) -> Struct:
    """The declaration of ``schema`` at ``version``. Raises ValueError for a schema that cannot be
    declared.
    """
    return _Declaration(schema, version).struct(schema["name"], schema["fields"], 0)


def spans(versions: str | None, version: int) -> bool:
    """True if a range in the schema's notation (``3``, ``0-5``, ``2+``, ``none``) holds
    ``version``.
    """
    return version in span(versions)


def span(versions: str | None) -> range:
    """A range of versions in the schema's notation; an open one ends with Java's highest short."""
    if versions is None or versions == "none":
        return range(0)
    low, _, high = versions.rstrip("+").partition("-")
    if versions.endswith("+"):
        return range(int(low), 32768)
    return range(int(low), int(high or low) + 1)


class _Declaration:
    """One schema at one version."""

    def __init__(self, schema: Facts, version: int) -> None:
        self.version = version
        self.flexible = spans(schema.get("flexibleVersions"), version)
        self.common = {
            struct["name"]: struct["fields"] for struct in schema.get("commonStructs", ())
        }

    def struct(self, name: str, fields: list[Facts], depth: int) -> Struct:
        if depth > DEEPEST:
            raise ValueError(f"struct {name} contains itself")
        plain: list[Field] = []
        known: dict[int, Field] = {}
        absent: list[Absent] = []
        for facts in fields:
            if not self.present(facts):
                absent.append(self.absent(facts, depth))
            elif self.tagged(facts):
                known[facts["tag"]] = self.field(facts, depth, in_tag=True)
            else:
                plain.append(self.field(facts, depth, in_tag=False))
        tags = None
        if self.flexible:
            foreign = {facts["tag"] for facts in fields if "tag" in facts} - set(known)
            tags = TagSection(known, sorted(foreign))
        return Struct(name, plain, tags, absent)

    def present(self, facts: Facts) -> bool:
        # Five tagged fields of shipped Kafka have no versions: those of the tag rule.
        return spans(facts.get("versions", facts.get("taggedVersions")), self.version)

    def tagged(self, facts: Facts) -> bool:
        return spans(facts.get("taggedVersions"), self.version)

    def field(self, facts: Facts, depth: int, in_tag: bool) -> Field:
        type_ = facts["type"]
        flexible = self.flexible
        if "flexibleVersions" in facts:
            flexible = spans(facts["flexibleVersions"], self.version)
        nullable = spans(facts.get("nullableVersions"), self.version)
        element = self.element(
            facts, flexible, nullable and not type_.startswith("[]"), depth, in_tag
        )
        wire = element
        if type_.startswith("[]"):
            wire = Array(CompactLength if flexible else Int32, nullable, element, type_[2:])
        return Field(facts["name"], type_, wire, self.default(facts, element))

    def element(
        self, facts: Facts, flexible: bool, nullable: bool, depth: int, in_tag: bool
    ) -> Construct:
        name = facts["type"].removeprefix("[]")
        if name in FIXED:
            return FIXED[name]
        if name in SIZED:
            short = Int16 if name == "string" else Int32
            return SIZED[name](CompactLength if flexible else short, nullable)
        fields = facts.get("fields", self.common.get(name))
        if fields is None:
            raise ValueError(f"{facts['name']} has a type that is not declared: {name}")
        struct = self.struct(name, fields, depth + 1)
        if not nullable:
            return struct
        return (
            NullableStruct(UnsignedVarint, 0, struct)
            if in_tag
            else NullableStruct(Int8, -1, struct)
        )

    def absent(self, facts: Facts, depth: int) -> Absent:
        element = self.element(facts, self.flexible, False, depth, False)
        return Absent(
            facts["name"],
            facts.get("ignorable", False) in (True, "true"),
            self.default(facts, element),
        )

    def default(self, facts: Facts, element: Construct) -> Fresh:
        """A factory of the default value. Kafka takes the string "null" for null, but a JSON null
        for no default at all.
        """
        given = facts.get("default")
        type_ = facts["type"]
        if given == "null" and (type_.startswith("[]") or type_ not in FIXED):
            return lambda: None
        if type_.startswith("[]"):
            return list
        struct = element.struct if isinstance(element, NullableStruct) else element
        if isinstance(struct, Struct):
            return struct.default
        value = scalar(type_, "" if given is None else str(given))
        return lambda: value


def scalar(type_: str, text: str) -> Any:
    """The default of a primitive type from the schema's notation, ``""`` for none: numbers may be
    hexadecimal.
    """
    if type_ == "string":
        return text
    if type_ == "bool":
        return text.lower() == "true"
    if type_ == "float64":
        return float(text or 0)
    if type_ == "uuid":
        return Uuid(base64.urlsafe_b64decode(text + "==")) if text else ZERO_UUID
    if type_ in FIXED:
        return int(text or "0", 0)
    return b""
