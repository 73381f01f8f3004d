"""Reads schemas from JSON and checks them against the rules of Kafka's own generator.

It knows nothing of Python output. The rules are those of ``MessageSpec``, ``FieldSpec``,
``StructSpec``, ``StructRegistry`` and ``Versions`` in Kafka's generator; a schema that breaks one
is refused with file, field and reason. ``members`` reads the single members of a JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from kwire.codegen.members import (
    COMMON_MEMBERS,
    FIELD_MEMBERS,
    MESSAGE_MEMBERS,
    Members,
    default_value,
    whole,
)
from kwire.codegen.model import MAX_VERSION, NONE, Field, Schema, SchemaError, Struct, Versions
from kwire.codegen.naming import attribute, class_name

MESSAGE_TYPES = (
    "request",
    "response",
    "header",
    "metadata",
    "data",
    "coordinator-key",
    "coordinator-value",
)

#: type -> bytes on the wire, or None where that depends on the value.
PRIMITIVES: Mapping[str, int | None] = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "string": None,
    "bytes": None,
    "records": None,
    "Header": None,
    "ApiMessage": None,
}

_ENTITY_TYPES = {
    "unknown": None,
    "transactionalId": "string",
    "producerId": "int64",
    "groupId": "string",
    "topicName": "string",
    "brokerId": "int32",
}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")


def strip_comments(text: str) -> str:
    """Blank out ``//`` comments outside of strings, keeping every line where it was."""
    return re.sub(
        r'"(?:[^"\\\n]|\\.)*"|//[^\n]*',
        lambda m: m.group() if m.group().startswith('"') else "",
        text,
    )


def load_json(text: str, source: str) -> dict[str, Any]:
    """Read one schema file, comments allowed. Raises SchemaError."""
    try:
        value = json.loads(strip_comments(text))
    except ValueError as error:
        raise SchemaError(source, "", f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise SchemaError(source, "", "a schema is a JSON object")
    return value


def parse(raw: Mapping[str, Any], source: str) -> Schema:
    """Return ``raw`` as a Schema, checked against every rule. Raises SchemaError."""
    return _Parser(raw, source).schema()


class _Parser(Members):
    """The state of one parse: the structs, in the order in which they were completed."""

    def __init__(self, raw: Mapping[str, Any], source: str) -> None:
        super().__init__(source)
        self.raw = raw
        self.common: dict[str, Mapping[str, Any]] = {}
        self.structs: dict[str, Struct] = {}
        self.open: list[str] = []
        self.array_of: dict[str, bool] = {}

    def schema(self) -> Schema:
        raw = self.raw
        name = self.text(raw, "name", "")
        self.check_known(raw, MESSAGE_MEMBERS, name)
        if not _NAME.match(name):
            raise self.fail(name, "a message name is letters and digits, a letter first")
        kind = self.text(raw, "type", name)
        if kind not in MESSAGE_TYPES:
            raise self.fail(name, f"type {kind!r} is none of {', '.join(MESSAGE_TYPES)}")
        valid = self.versions(raw, "validVersions", name)
        flexible = self.versions(raw, "flexibleVersions", name, NONE if not valid else None)
        if flexible and flexible.high != MAX_VERSION:
            raise self.fail(
                name,
                f"flexibleVersions {flexible} must be open-ended (such as {flexible.low}+) or none",
            )
        api_key = self.api_key(raw, kind, name)
        self.read_common(raw.get("commonStructs", ()), name)
        root = self.struct(
            name,
            raw.get("fields", ()),
            Versions(valid.low, MAX_VERSION) if valid else NONE,
            flexible,
            name,
        )
        for unused in self.common:
            if unused not in self.structs:
                self.common_struct(unused, flexible, name)
        listeners = raw.get("listeners", ())
        if not isinstance(listeners, list | tuple) or not all(
            isinstance(x, str) for x in listeners
        ):
            raise self.fail(name, "listeners is a list of names")
        if listeners and kind != "request":
            raise self.fail(name, "only requests have listeners")
        return Schema(
            source=self.source,
            name=name,
            type=kind,
            api_key=api_key,
            valid=valid,
            flexible=flexible,
            deprecated=self.versions(raw, "deprecatedVersions", name, NONE),
            unstable=self.flag(raw, "latestVersionUnstable", name),
            listeners=tuple(listeners),
            headers=self.headers(raw, kind, valid, flexible, name),
            root=root,
            structs=tuple(self.structs.values()),
        )

    def read_common(self, raw: Any, name: str) -> None:
        if not isinstance(raw, list | tuple):
            raise self.fail(name, "commonStructs is a list")
        for one in raw:
            if not isinstance(one, Mapping):
                raise self.fail(name, "a common struct is an object")
            label = self.text(one, "name", name)
            self.check_known(one, COMMON_MEMBERS, f"{name}/{label}")
            if label in self.common:
                raise self.fail(
                    f"{name}/{label}", "a common struct of that name stands there twice"
                )
            self.common[label] = one

    def common_struct(self, label: str, flexible: Versions, name: str) -> Struct:
        raw = self.common[label]
        path = f"{name}/{label}"
        return self.struct(
            label, raw.get("fields", ()), self.versions(raw, "versions", path), flexible, path
        )

    def struct(
        self, name: str, raw_fields: Any, versions: Versions, flexible: Versions, path: str
    ) -> Struct:
        if name in self.structs:
            raise self.fail(path, f"struct {name} is declared twice")
        if name in self.open:
            raise self.fail(path, f"struct {name} contains itself")
        if not isinstance(raw_fields, list | tuple):
            raise self.fail(path, "fields is a list")
        self.open.append(name)
        struct = Struct(name, class_name(name), versions)
        seen: dict[str, str] = {}
        for raw in raw_fields:
            if not isinstance(raw, Mapping):
                raise self.fail(path, "a field is an object")
            field = self.field(raw, versions, flexible, path)
            if field.attr in seen:
                raise self.fail(
                    f"{path}.{field.name}", f"two fields share one name ({seen[field.attr]})"
                )
            seen[field.attr] = field.name
            struct.fields.append(field)
        self.check_tags(struct, path)
        self.open.pop()
        self.structs[name] = struct
        return struct

    def check_tags(self, struct: Struct, path: str) -> None:
        # Kafka numbers tags 0, 1, 2 ... without holes within a struct.
        tags: dict[int, str] = {}
        for f in struct.fields:
            if f.tag is not None:
                if f.tag in tags:
                    raise self.fail(
                        f"{path}.{f.name}", f"tag {f.tag} belongs to {tags[f.tag]} already"
                    )
                tags[f.tag] = f.name
        missing = set(range(len(tags))) - set(tags)
        if missing:
            raise self.fail(path, f"tags must run from 0 without holes, {min(missing)} is missing")

    def field(
        self, raw: Mapping[str, Any], parent: Versions, flexible: Versions, parent_path: str
    ) -> Field:
        name = self.text(raw, "name", parent_path)
        path = f"{parent_path}.{name}"
        self.check_known(raw, FIELD_MEMBERS, path)
        if not _NAME.match(name):
            raise self.fail(path, "a field name is letters and digits, a letter first")
        type_name = self.text(raw, "type", path)
        array = type_name.startswith("[]")
        element = type_name[2:] if array else type_name
        if element.startswith("[]"):
            raise self.fail(path, "an array of arrays needs a struct between the two")
        tagged = self.versions(raw, "taggedVersions", path, NONE)
        versions = self.versions(raw, "versions", path, tagged if tagged else None)
        if not versions and "versions" in raw:
            raise self.fail(path, "a field without versions is never written")
        nullable = self.versions(raw, "nullableVersions", path, NONE)
        own_flexible = (
            self.versions(raw, "flexibleVersions", path, NONE)
            if "flexibleVersions" in raw
            else None
        )
        tag = self.tag(raw, tagged, versions, flexible, path)
        struct = self.inner(raw, element, array, versions & parent, flexible, path)
        if nullable and not (
            array or struct is not None or element in ("string", "bytes", "records")
        ):
            raise self.fail(path, f"type {element} cannot be nullable")
        map_key = self.flag(raw, "mapKey", path)
        if map_key and tag is not None:
            raise self.fail(path, "a map key cannot be a tagged field")
        zero_copy = self.flag(raw, "zeroCopy", path)
        if zero_copy and (array or element != "bytes"):
            raise self.fail(path, "zeroCopy is for bytes only")
        entity = raw.get("entityType")
        if entity is not None and entity not in _ENTITY_TYPES:
            raise self.fail(path, f"unknown entityType {entity!r}")
        if entity is not None and _ENTITY_TYPES[entity] not in (None, element):
            raise self.fail(
                path, f"entityType {entity} needs type {_ENTITY_TYPES[entity]}, not {element}"
            )
        return Field(
            name=name,
            attr=attribute(name),
            type=element,
            array=array,
            versions=versions,
            nullable=nullable,
            tagged=tagged,
            tag=tag,
            default=self.default(raw, element, array, struct, versions, nullable, path),
            ignorable=self.flag(raw, "ignorable", path),
            map_key=map_key,
            flexible=own_flexible,
            zero_copy=zero_copy,
            entity=entity,
            struct=struct,
        )

    def tag(
        self,
        raw: Mapping[str, Any],
        tagged: Versions,
        versions: Versions,
        flexible: Versions,
        path: str,
    ) -> int | None:
        tag = whole(raw.get("tag"))
        if tag is None:
            if tagged:
                raise self.fail(path, "taggedVersions without a tag")
            return None
        if isinstance(tag, bool) or not isinstance(tag, int) or tag < 0:
            raise self.fail(path, f"tag {tag!r} is not a number from 0")
        if not tagged:
            raise self.fail(path, "a tag without taggedVersions")
        if tagged.high != MAX_VERSION:
            raise self.fail(
                path,
                f"taggedVersions {tagged} must be open-ended: a tag once given is never taken back",
            )
        if not flexible.covers(tagged & Versions(first_version(versions), MAX_VERSION)):
            raise self.fail(
                path, f"taggedVersions {tagged} must lie inside flexibleVersions {flexible}"
            )
        if not versions.covers(tagged):
            raise self.fail(path, f"taggedVersions {tagged} must lie inside versions {versions}")
        return tag

    def inner(
        self,
        raw: Mapping[str, Any],
        element: str,
        array: bool,
        versions: Versions,
        flexible: Versions,
        path: str,
    ) -> Struct | None:
        if element in PRIMITIVES:
            if "fields" in raw:
                raise self.fail(path, f"type {element} cannot have fields")
            if array and element in ("Header", "ApiMessage"):
                raise self.fail(path, f"an array of {element} is not possible")
            return None
        if not element[:1].isupper() or not _NAME.match(element):
            raise self.fail(path, f"unknown type {element!r}")
        if "fields" in raw:
            if element in self.common:
                raise self.fail(
                    path, f"struct {element} is declared here and among the common structs"
                )
            struct = self.struct(element, raw["fields"], versions, flexible, path)
        elif element in self.structs:
            struct = self.structs[element]
            if element not in self.common:
                raise self.fail(
                    path,
                    f"struct {element} is declared elsewhere: make it a common struct to use it"
                    " twice",
                )
        elif element in self.common:
            struct = self.common_struct(element, flexible, path.split(".", 1)[0].split("/", 1)[0])
        else:
            raise self.fail(
                path, f"unknown struct {element!r}: neither fields here nor a common struct"
            )
        if not array and any(f.map_key for f in struct.fields):
            raise self.fail(
                path, f"struct {element} has map keys, so it can only stand in an array"
            )
        return struct

    def default(
        self,
        raw: Mapping[str, Any],
        element: str,
        array: bool,
        struct: Struct | None,
        versions: Versions,
        nullable: Versions,
        path: str,
    ) -> Any:
        # A JSON null is no default at all to Kafka, only the string "null" is one.
        value = raw.get("default")
        text = (
            "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        )
        if text == "null" and (
            array or struct is not None or element in ("string", "bytes", "records")
        ):
            if not nullable.covers(versions):
                raise self.fail(
                    path, f"default null needs nullableVersions {versions}, not {nullable}"
                )
            return None
        if element == "records" and not array and not text:
            return None  # Kafka's generator starts records at null, nullable or not
        try:
            return default_value(element, array, struct, text)
        except ValueError as error:
            raise self.fail(
                path,
                f"default {value!r} does not fit type {'[]' if array else ''}{element}: {error}",
            ) from None

    def api_key(self, raw: Mapping[str, Any], kind: str, name: str) -> int | None:
        key = whole(raw.get("apiKey"))
        if key is None:
            if kind in ("request", "response", "metadata", "coordinator-key", "coordinator-value"):
                raise self.fail(name, f"a {kind} message needs an apiKey")
            return None
        if isinstance(key, bool) or not isinstance(key, int) or not -1 <= key <= 32767:
            raise self.fail(name, f"apiKey {key!r} is not a number from -1 to 32767")
        if kind in ("header", "data"):
            raise self.fail(name, f"a {kind} message has no apiKey")
        return key


def first_version(versions: Versions) -> int:
    """The first version of a range, 0 where it is empty."""
    return versions.low if versions else 0
